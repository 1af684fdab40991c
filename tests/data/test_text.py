"""Reading files: the same text on every system, or one line that says what is wrong and where."""

from pathlib import Path

import pytest

from tinyattn.data import DataError, documents_of, read_pairs, read_text


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "file.txt"


@pytest.mark.parametrize(
    "raw",
    [b"one\ntwo\n", b"one\r\ntwo\r\n", b"one\rtwo\r", b"\xef\xbb\xbfone\ntwo\n",
     b"\xef\xbb\xbfone\r\ntwo\r\n"],
    ids=["LF", "CRLF", "CR", "mark", "mark and CRLF"],
)  # fmt: skip
def test_line_ends_and_byte_order_marks_make_no_difference(file: Path, raw: bytes) -> None:
    file.write_bytes(raw)
    assert read_text(file) == "one\ntwo\n"
    assert documents_of(read_text(file)) == ["one", "two"]


@pytest.mark.parametrize(
    ("raw", "why"),
    [(b"", "empty"), (b" \r\n\n", "empty"), (b"\xef\xbb\xbf", "empty"),
     (b"one\ncaf\xe9\n", r"line 2 is not UTF-8 \(byte 0xe9 at 7\)"),
     ("one".encode("utf-16"), "line 1 is not UTF-8")],
)  # fmt: skip
def test_a_file_that_is_no_text_is_refused(file: Path, raw: bytes, why: str) -> None:
    file.write_bytes(raw)
    with pytest.raises(DataError, match=f"file.txt: .*{why}"):
        read_text(file)


def test_what_is_missing_or_no_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere\.txt: no such file"):
        read_text(tmp_path / "nowhere.txt")
    with pytest.raises(DataError, match=tmp_path.name):
        read_text(tmp_path)


def test_pairs_and_questions(file: Path) -> None:
    file.write_bytes(b"\xef\xbb\xbfWhere was Ada born?\tLozumb\r\n\r\nAnd Bo?\tZarg\r\n")
    assert read_pairs(file) == [("Where was Ada born?", "Lozumb"), ("And Bo?", "Zarg")]
    file.write_text("Where was Ada born?\nAnd Bo?\n")
    assert read_pairs(file) == [("Where was Ada born?", None), ("And Bo?", None)]


@pytest.mark.parametrize("line", ["no tab", "two\ttabs\there", "\tno question", "no answer\t"])
def test_a_line_that_is_no_pair_is_named_by_its_number(file: Path, line: str) -> None:
    file.write_text(f"question\tanswer\n\n{line}\n")
    with pytest.raises(DataError, match=r"file\.txt: line 3 must be a question, one tab"):
        read_pairs(file)
