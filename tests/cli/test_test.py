"""`gla test`: which tests run, what is told, which code."""


def test_passing_tests_are_counted(gla):
    told = gla("test", "growth.gla", "--device", "cpu")
    assert told.code == 0 and told.out.count("ok ") == 2 and "2 passed in" in told.out and told.err == ""


def test_a_failure_is_code_1_with_its_place(gla):
    told = gla("test", "fails.gla", "--device", "cpu")
    assert told.code == 1 and "FAILED  does not" in told.out and "1 passed, 1 failed" in told.out
    assert "one is not two" in told.err and "fails.gla:2:" in told.err


def test_tests_are_chosen_by_a_part_of_their_name(gla):
    told = gla("test", "growth.gla", "fails.gla", "-k", "BY ONE", "--device", "cpu")
    assert told.code == 0 and "1 passed in" in told.out


def test_a_part_that_no_name_holds_is_a_usage_error(gla):
    assert gla("test", "growth.gla", "-k", "zzz", "--device", "cpu").code == 2


def test_a_program_without_tests_says_so(gla):
    told = gla("test", "two.gla")
    assert (told.code, told.out) == (0, "two.gla has no tests\n")


def test_a_wrong_program_does_not_hide_the_others(gla):
    told = gla("test", "gone.gla", "growth.gla", "--device", "cpu")
    assert told.code == 2 and "2 passed" in told.out and "gone.gla" in told.err


def test_outputs_of_tests_are_not_written(gla, folder):
    (folder / "t.gla").write_text('test "writes" { save ones((2,)) to "t.npy" }\n')
    assert gla("test", "t.gla", "--device", "cpu").code == 0
    assert not (folder / "t.npy").exists()


def test_only_failures_are_told_when_quiet(gla):
    assert "ok" not in gla("test", "growth.gla", "-q", "--device", "cpu").out
