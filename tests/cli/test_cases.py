"""Cases of the command, by id, that no other test of it holds."""

import re

import numpy as np
import pytest

from tests.cli.programs import GROWTH, command

FORCES = "fn pull(x: f64[n]) -> f64[n] = 2.0 * x + sin(x)\n"
MAIN = 'import "./forces.gla" as forces\nsize n = 3\nrun { print forces.pull(zeros((n,)) + 3.0) }\n'


def test_a81_an_edit_of_an_imported_file_is_seen_and_a_touch_compiles_nothing(tmp_path):
    def ran():
        told = command("run", "main.gla", cwd=tmp_path, env={"GLA_CACHE_DIR": str(tmp_path / "cache")})
        assert (told.returncode, told.stderr) == (0, b"")
        return [float(word) for word in re.findall(r"[\d.]+", told.stdout.decode())]

    def kept():  # a file that is written again is another one; one that is read has only its time changed
        return {path: path.stat().st_ino for path in (tmp_path / "cache").rglob("*") if path.is_file()}

    forces = tmp_path / "forces.gla"
    forces.write_text(FORCES)
    (tmp_path / "main.gla").write_text(MAIN)
    first, files = ran(), kept()
    np.testing.assert_allclose(first, [6.0 + np.sin(3.0)] * 3, rtol=1e-7)
    assert files
    forces.touch()
    assert ran() == first and kept() == files
    forces.write_text(FORCES.replace("2.0", "5.0"))
    np.testing.assert_allclose(ran(), [15.0 + np.sin(3.0)] * 3, rtol=1e-7)


def test_a98_an_index_out_of_range_is_code_1_with_its_line(gla, folder):
    (folder / "d.gla").write_text("param i: i64 = 10\nrun {\n    let a = arange(-5, 5)\n    print a[a[0] + 5 + i]\n}\n")
    told = gla("run", "d.gla", "--check", "bounds")
    assert told.code == 1 and "GLA0603" in told.err and "10 to 10" in told.err and "d.gla:4:" in told.err


@pytest.mark.parametrize("name", ["check", "run", "test"])
@pytest.mark.parametrize("data, word", [(None, "is a folder"), (b"run\xff{}", "byte offset 3"), (b"\0\1\2", "byte offset 0")])
def test_a130_what_is_no_program_is_named(gla, folder, name, data, word):
    if data is None:
        (folder / "p.gla").mkdir()
    else:
        (folder / "p.gla").write_bytes(data)
    told = gla(name, "p.gla")
    assert told.code == 2 and word in told.err and "Traceback" not in told.err


def test_a136_a_missing_key_of_an_input_lists_the_keys_nearest_first(gla, folder):
    np.savez(folder / "s.npz", other=np.zeros(4), start=np.ones(4))
    told = gla("run", "growth.gla", "--start", "s.npz:strat")
    assert told.code == 2 and told.err.index("start,") < told.err.index("other")


def test_a137_a_table_with_a_header_is_refused_with_the_hint(gla, folder):
    (folder / "t.csv").write_text("x\n1\n2\n\n3\n4\n\n")
    told = gla("run", "growth.gla", "--start", "t.csv")
    assert told.code == 2 and "line 1" in told.err and "skip=1" in told.err
    assert gla("run", "growth.gla", "--start", "t.csv:skip=1", "--rate", "0").out.startswith("sum 10.0 ")


@pytest.mark.parametrize("out", ["/proc/gla", "/dev/null", "/dev/null/below"])
def test_a142_a_folder_that_cannot_be_is_refused_before_anything_is_computed(gla, out):
    told = gla("run", "growth.gla", "--out", out)
    assert (told.code, told.out) == (2, "") and out.split("/below")[0] in told.err


@pytest.mark.parametrize("args", [("check", "--outptu-format", "json"), ("test", "--quite"), ("run", "--quite")])
def test_a143_an_unknown_flag_is_code_2_with_the_nearest(gla, args):
    told = gla(args[0], "growth.gla", *args[1:])
    assert told.code == 2 and told.out == "" and "did you mean --" in told.err


def test_a143_a_program_whose_name_begins_with_a_dash(gla, folder):
    (folder / "-x.gla").write_text('run { print "here" }\n')
    assert gla("run", "--", "-x.gla").out == "here\n"
    assert gla("check", "--", "-x.gla").code == 0


def test_a143_a_program_to_check_comes_through_standard_input():
    told = command("check", "-", input=b"run { print x }\n")
    assert told.returncode == 1 and b"<stdin>:1:13" in told.stderr


def test_a144_a_log_has_no_colours_and_no_progress(tmp_path):
    (tmp_path / "growth.gla").write_text(GROWTH)
    told = command("run", "growth.gla", cwd=tmp_path, env={"TERM": "xterm"})
    assert (told.returncode, told.stderr) == (0, b"") and b"\x1b" not in told.stdout
    told = command("run", "-", input=b"run { print x }\n", env={"TERM": "xterm"})
    assert told.returncode == 1 and b"\x1b" not in told.stderr
