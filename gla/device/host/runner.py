"""The three functions that the host device itself needs, as LLVM IR: run a table of calls, copy bytes, fill bytes.

`gla_copy` and `gla_fill` have the form of kernels, so that a table of calls holds all that a graph does.
"""

SOURCE = """\
declare void @llvm.memmove.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

; table: (function, slots, items) as three words each
define void @gla_run(ptr %table, i64 %count) #0 {
entry:
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  %inside = icmp slt i64 %i, %count
  br i1 %inside, label %body, label %done
body:
  %at = mul i64 %i, 3
  %row = getelementptr i64, ptr %table, i64 %at
  %function = load ptr, ptr %row, align 8
  %second = getelementptr i64, ptr %row, i64 1
  %slots = load ptr, ptr %second, align 8
  %third = getelementptr i64, ptr %row, i64 2
  %items = load i64, ptr %third, align 8
  call void %function(ptr %slots, i64 0, i64 %items)
  %next = add i64 %i, 1
  br label %head
done:
  ret void
}

; slots: target, source
define void @gla_copy(ptr %slots, i64 %begin, i64 %end) #0 {
  %target = load ptr, ptr %slots, align 8
  %second = getelementptr i64, ptr %slots, i64 1
  %source = load ptr, ptr %second, align 8
  %to = getelementptr i8, ptr %target, i64 %begin
  %from = getelementptr i8, ptr %source, i64 %begin
  %length = sub i64 %end, %begin
  call void @llvm.memmove.p0.p0.i64(ptr %to, ptr %from, i64 %length, i1 false)
  ret void
}

; slots: target, byte
define void @gla_fill(ptr %slots, i64 %begin, i64 %end) #0 {
  %target = load ptr, ptr %slots, align 8
  %second = getelementptr i64, ptr %slots, i64 1
  %byte = load i8, ptr %second, align 8
  %to = getelementptr i8, ptr %target, i64 %begin
  %length = sub i64 %end, %begin
  call void @llvm.memset.p0.i64(ptr %to, i8 %byte, i64 %length, i1 false)
  ret void
}
attributes #0 = { nounwind }
"""
