"""A mutant is applied to a copy, and one whose text is not there any more is an error."""

from pathlib import Path

import pytest

from tests.simulation.mutants.catalogue import (
    PACKAGES,
    ROOT,
    Edit,
    Killing,
    Mutant,
    MutantDoesNotApply,
    apply_mutant,
    chosen,
    copy_packages,
    load_killings,
    load_mutants,
    package_paths,
    save_killings,
)

MUTANT = Mutant(
    name="m", breaks="what is promised", edit=[Edit(file="worker/a.py", old="one", new="two")]
)


def copy_with(target: Path, text: str) -> Path:
    file = target / "worker" / "a.py"
    file.parent.mkdir()
    file.write_text(text)
    return file


def test_a_mutant_is_applied_to_the_copy(tmp_path: Path) -> None:
    file = copy_with(tmp_path, "x = one\n")
    apply_mutant(MUTANT, tmp_path)
    assert file.read_text() == "x = two\n"


@pytest.mark.parametrize("text", ["x = 1\n", "one, one\n"])
def test_a_mutant_whose_text_is_not_there_once_is_an_error(tmp_path: Path, text: str) -> None:
    file = copy_with(tmp_path, text)
    with pytest.raises(MutantDoesNotApply, match=r"m: its text occurs . times in worker/a\.py"):
        apply_mutant(MUTANT, tmp_path)
    assert file.read_text() == text


def test_a_mutant_of_a_file_that_is_gone_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(MutantDoesNotApply, match="0 times"):
        apply_mutant(MUTANT, tmp_path)


def test_the_packages_of_a_copy_are_imported_from_it(tmp_path: Path) -> None:
    copy_packages(tmp_path)
    found = {Path(path).name: [*Path(path).glob("dedupe_*")] for path in package_paths(tmp_path)}
    assert found.keys() == {*PACKAGES}
    assert all(found.values())


def test_killings_are_saved_sorted_and_loaded_again(tmp_path: Path) -> None:
    path = tmp_path / "killed.toml"
    assert load_killings(path) == {}
    killings = {
        "b": Killing(seed=2, kinds=["lost"]),
        "a": Killing(seed=1, kinds=["silent", "duplicated"]),
    }
    save_killings(killings, path)
    assert list(load_killings(path)) == ["a", "b"]
    assert load_killings(path)["a"] == Killing(seed=1, kinds=["duplicated", "silent"])


def test_two_mutants_of_one_name_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "mutants.toml"
    entry = '[[mutant]]\nname = "m"\nbreaks = "b"\nedit = [{file = "f", old = "o", new = "n"}]\n'
    path.write_text(entry * 2)
    with pytest.raises(ValueError, match="same name"):
        load_mutants(path)


def test_mutants_are_chosen_by_name() -> None:
    mutants = {"m": MUTANT}
    assert chosen(mutants, []) == chosen(mutants, ["m"]) == [MUTANT]
    with pytest.raises(KeyError):
        chosen(mutants, ["other"])


@pytest.mark.parametrize("name", load_mutants())
def test_the_text_of_each_mutant_is_in_the_tree_once(name: str) -> None:
    for edit in load_mutants()[name].edit:
        assert (ROOT / edit.file).read_text().count(edit.old) == 1, edit.file
