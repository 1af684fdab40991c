"""Treebanks: a tree for every sentence, or an error with the line."""

from pathlib import Path

import pytest

from tinyattn.data import DataError
from tinyattn.parsing import Sentence, read_conllu

TREEBANK = """\
# newdoc id = first
# sent_id = 1
1-2	Don't	_	_	_	_	_	_	_	_
1	Do	do	AUX	_	_	3	aux	3:aux	_
2	n't	not	PART	_	_	3	advmod	3:advmod	_
3	panic	panic	VERB	_	_	0	root	0:root	_
3.1	,	,	PUNCT	_	_	_	_	3:punct	_

# sent_id = 2
1	Oh	oh	INTJ	_	_	0	root	_	_

# newdoc id = second
1	\u00a0x	x	SYM	_	_	2	dep:x	_	_
2	why	why	ADV	_	_	0	root	_	_
3	# now	now	ADV	_	_	2	advmod	_	_
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "file.conllu"


def line(word: int | str, governor: int | str, relation: str = "dep") -> str:
    return f"{word}\tword\tword\tNOUN\t_\t_\t{governor}\t{relation}\t_\t_\n"


def test_words_their_tags_and_their_tree_by_document(file: Path) -> None:
    file.write_text(TREEBANK, encoding="utf-8")
    first, second = read_conllu(file)
    assert first == [
        Sentence(("Do", "n't", "panic"), ("AUX", "PART", "VERB"), (3, 3, 0),
                 ("aux", "advmod", "root")),
        Sentence(("Oh",), ("INTJ",), (0,), ("root",)),
    ]  # fmt: skip
    assert second == [
        Sentence(("\u00a0x", "why", "# now"), ("SYM", "ADV", "ADV"), (2, 0, 2),
                 ("dep:x", "root", "advmod"))
    ]  # fmt: skip
    assert [len(s) for s in first] == [3, 1]


@pytest.mark.parametrize("change", [
    lambda text: text.replace("\n", "\r\n"),
    lambda text: "\ufeff" + text,
    lambda text: text.replace("# newdoc", "\ufeff# newdoc"),
    lambda text: text.replace("\t", "\t\ufeff"),
    lambda text: text.replace("# newdoc id = second", "#newdoc"),
    lambda text: text.replace("# newdoc id = second", "#newdoc id=x"),
    lambda text: text.replace("# newdoc id = second", "#\tnewdoc\tid = x"),
    lambda text: text.replace("# newdoc id = second", "#  newdoc=x"),
    lambda text: "\n\n" + text + "\n \n\n",
    lambda text: text.rstrip("\n"),
], ids=["CRLF", "mark", "marks of joined files", "marks in fields", "#newdoc", "#newdoc id=x",
        "tabs", "newdoc=x", "blank lines", "no last line end"])  # fmt: skip
def test_ignored_parts_of_a_file(file: Path, change: object) -> None:
    file.write_text(TREEBANK, encoding="utf-8", newline="")
    expected = read_conllu(file)
    file.write_text(change(TREEBANK), encoding="utf-8", newline="")  # type: ignore[operator]
    assert read_conllu(file) == expected


def test_without_document_lines_each_sentence_is_a_document(file: Path) -> None:
    file.write_text(line(1, 0) + "\n" + line(1, 2) + line(2, 0))
    assert [[len(s) for s in document] for document in read_conllu(file)] == [[1], [2]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        ("# newdoc\n\n# only a remark\n", "there is no sentence in it"),
        ("1\tone\ttwo\n", "line 1: needs 10 columns with tabs between them; got 3"),
        (line(1, 0).replace("\t", " "), "line 1: needs 10 columns .* got 1; there are spaces"),
        (line(1, 0).replace("\t", "    "), "line 1: .* got 1; there are spaces where tabs should"),
        (line(1, 0).replace("word", "wo\ufeffrd"), "line 1 contains a byte-order mark"),
        (line(1, 0) + line(2, 1).replace("\n", "\t_\n"), "line 2: needs 10 .* got 11"),
        (line(1, 0) + "\n\n" + line(2, 0), "line 4: must be word 1 of its sentence; got id '2'"),
        (line(1, 0) + line(3, 1), "line 2: must be word 2 of its sentence; got id '3'"),
        (line(1, 0) + line(1, 0), "line 2: must be word 2"),  # a blank line is missing
        (line("1x", 0), "line 1: must be word 1 of its sentence; got id '1x'"),
        (line(1, 0) + line(2, 3), "line 2: the head must be a word, 1..2, or 0 .* got '3'"),
        (line(1, -1), "line 1: the head must be a word"),
        (line(1, "_"), "line 1: the head must be .* got '_'"),
        (line(1, "9" * 5000), "line 1: the head must be"),
        (line(1, "²"), "line 1: the head must be"),
        (line(1, 0, " "), "line 1: column 8, the relation, is empty"),
        ("# x\n" + line(1, 2) + line(2, 1), "line 2: no word of this sentence has head 0"),
        (line(1, 1), "line 1: no word of this sentence has head 0"),
        (line(1, 0) + line(2, 1) + line(3, 0), "line 3: a second word with head 0; .* line 1"),
        (line(1, 2) + line(2, 0) + line(3, 4) + line(4, 5) + line(5, 4),
         "line 3: from word 3, the heads form a cycle"),
        (line(1, 0) + line(2, 2), "line 2: from word 2, the heads form a cycle"),
        (line(1, 0, "_"), "line 1: column 8, the relation, is empty"),
        (line(1, 2) + "# newdoc id = 2\n" + line(2, 0), "line 2: a document begins in the middle"),
    ],
)  # fmt: skip
def test_damage_is_named_with_its_line(file: Path, text: str, message: str) -> None:
    file.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=rf"file\.conllu: {message}"):
        read_conllu(file)


def test_bytes_that_are_not_utf8(file: Path) -> None:
    file.write_bytes(line(1, 0).encode() + b"# caf\xe9\n")
    with pytest.raises(DataError, match=r"file\.conllu: line 2 is not UTF-8"):
        read_conllu(file)
