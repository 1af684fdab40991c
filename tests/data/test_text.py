"""Reading files: the same text on every system, or one line with the error and its place."""

from pathlib import Path

import pytest

from tinyattn.data import DataError, documents_of, read_pairs, read_text


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "file.txt"


@pytest.mark.parametrize(
    "raw",
    [b"one\ntwo\n", b"one\r\ntwo\r\n", b"one\rtwo\r", b"\xef\xbb\xbfone\ntwo\n",
     b"\xef\xbb\xbfone\r\ntwo\r\n", b"\xef\xbb\xbfone\n\xef\xbb\xbftwo\n",
     b"one\r\xef\xbb\xbf\xef\xbb\xbftwo\r"],
    ids=["LF", "CRLF", "CR", "mark", "mark and CRLF", "two files", "two files with CR"],
)  # fmt: skip
def test_line_ends_and_byte_order_marks_make_no_difference(file: Path, raw: bytes) -> None:
    file.write_bytes(raw)
    assert read_text(file) == "one\ntwo\n"
    assert documents_of(read_text(file)) == ["one", "two"]


@pytest.mark.parametrize(
    ("raw", "why"),
    [(b"", "empty"), (b" \r\n\n", "empty"), (b"\xef\xbb\xbf", "empty"),
     (b"one\ncaf\xe9\n", r"line 2 is not UTF-8 \(byte 0xe9 at 7\)"),
     ("one".encode("utf-16"), "line 1 is not UTF-8 .*; it looks like UTF-16; save the file as"),
     ("one\ntwo\n".encode("utf-16-le"), "line 1 contains a NUL .*; it looks like UTF-16; save"),
     ("one\ntwo\n".encode("utf-16-be"), "line 1 contains a NUL .*; it looks like UTF-16; save"),
     ("one\ncafé\n".encode("utf-16-le"), "line 2 is not UTF-8 .*; it looks like UTF-16; save"),
     ("one\ntwo\n".encode("utf-32-le"), "line 1 contains a NUL .*; it looks like UTF-16; save"),
     (b"one\ntwo\0\n", r"line 2 contains a NUL \(U\+0000\); save the file as UTF-8"),
     (b"one\ntwo\xef\xbb\xbfthree\n", r"line 2 contains a byte-order mark \(U\+FEFF\) inside the")],
)  # fmt: skip
def test_a_file_that_is_not_text_is_refused(file: Path, raw: bytes, why: str) -> None:
    file.write_bytes(raw)
    with pytest.raises(DataError, match=f"file.txt: .*{why}"):
        read_text(file)


def test_a_missing_file_or_a_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere\.txt: no such file"):
        read_text(tmp_path / "nowhere.txt")
    with pytest.raises(DataError, match=tmp_path.name):
        read_text(tmp_path)


def test_a_missing_file_has_a_similar_one(tmp_path: Path) -> None:
    (tmp_path / "birth_train.tsv").write_text("x")
    with pytest.raises(DataError, match=r"; did you mean 'birth_train\.tsv'\?$"):
        read_text(tmp_path / "birth_trian.tsv")
    with pytest.raises(DataError, match=r"no such file or directory$"):
        read_text(tmp_path / "corpus.txt")


def test_pairs_and_questions(file: Path) -> None:
    file.write_bytes(b"\xef\xbb\xbfWhere was Ada born?\tLozumb\r\n\r\nAnd Bo?\tZarg\r\n")
    assert read_pairs(file) == [("Where was Ada born?", "Lozumb"), ("And Bo?", "Zarg")]
    file.write_text("Where was Ada born?\nAnd Bo?\n")
    assert read_pairs(file) == [("Where was Ada born?", None), ("And Bo?", None)]


@pytest.mark.parametrize("end", [" ", "  ", "\u00a0", "\r", " \r", "\u3000", "\x0c"])
def test_space_at_the_end_of_an_answer_is_removed(file: Path, end: str) -> None:
    """As in A5's scorer; all other space is kept."""
    file.write_text(f" q \t a b{end}\nr\tc{end}", encoding="utf-8", newline="")
    assert read_pairs(file) == [(" q ", " a b"), ("r", "c")]
    file.write_bytes("\ufeffq\t\ufeffa\n\ufeffr\tc\n".encode())  # each with its byte order mark
    assert read_pairs(file) == [("q", "a"), ("r", "c")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Where was A born?  Oz\n", r"line 1 has spaces where a tab should be, .*'Where was"),
        ("Where was A born?        Oz\nAnd B?    Oz\nAnd Carla? Oz\n", r"line 1 has spaces where"),
        ("And Carla Oz\n\nAnd B?  Oz\nAnd D?  Oz\n", r"line 3 has spaces where a tab should be"),
        ("Where was A born? Oz\nAnd B? Oz\n", r"line 1 has spaces where a tab should be"),
        ("question,answer\nAnd B?, Oz\nAnd C?;Oz\n", r"line 2 has a comma or semicolon where"),
        ('"Where was A born?","Oz"\n', r"line 1 has a comma or semicolon where"),
        ("q\ta\n#x\n", r"line 2 must be a question, one tab and an answer; got '#x'$"),
        ("q\ta\nAnd B? Oz\n", r"line 2 must be .*; there are spaces where the tab should be"),
        ("q\ta\tb\n", r"line 1 must be a question, one tab and an answer; got 'q\\ta\\tb'$"),
    ],
)  # fmt: skip
def test_a_table_with_spaces_instead_of_tabs_raises_an_error(
    file: Path, text: str, message: str
) -> None:
    file.write_text(text)
    with pytest.raises(DataError, match=rf"file\.txt: {message}"):
        read_pairs(file)


def test_questions_may_end_with_a_space(file: Path) -> None:
    file.write_text("Where was  A born?\nAnd B?\nAnd C?\n")
    assert [answer for _, answer in read_pairs(file)] == [None] * 3


@pytest.mark.parametrize("line", ["no tab", "two\ttabs\there", "\tno question", "no answer\t"])
def test_a_line_without_a_pair_is_named_by_its_number(file: Path, line: str) -> None:
    file.write_text(f"question\tanswer\n\n{line}\n")
    with pytest.raises(DataError, match=r"file\.txt: line 3 must be a question, one tab"):
        read_pairs(file)
