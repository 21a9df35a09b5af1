"""Personal methods in settings files: own networks, bits, and the settings that come along."""

import pytest

import fedloom as fl
from fedloom.experiments import settings
from fedloom.experiments.papers import available

SETTINGS = """
[data]
name = "iris"

[partition]
scheme = "iid"
clients = 4

[problem]
kind = "personal"
model = { kind = "mlp", hidden = [4] }
own = [{ kind = "mlp", hidden = [5, 3] }, { kind = "mlp", hidden = [4, 4] }]
bits = [2, 1]

[algorithm]
key = "quped"
lr = 0.1
quantise = { pull = 1e-3, freeze_after = 5 }
"""


def read(tmp_path, text):
    path = tmp_path / "own.toml"
    path.write_text(text)
    return settings.read(path)


def test_own_networks_and_bits_can_be_written_down(tmp_path):
    chosen = read(tmp_path, SETTINGS)
    assert chosen.problem == fl.problems.Personal(
        fl.models.MLP((4,)), (fl.models.MLP((5, 3)), fl.models.MLP((4, 4))), bits=(2, 1)
    )
    quantise = fl.algorithms.Quantisation(pull=1e-3, freeze_after=5)
    assert chosen.algorithm == fl.algorithms.QuPeD(lr=0.1, quantise=quantise)
    variants = chosen.problem.groups(chosen.clients())
    assert [members for _, members in variants] == [[0, 2], [1, 3]]


@pytest.mark.parametrize(
    "wrong,right,message",
    [
        ("freeze_after = 5", "freeze_afterwards = 5", "is not a parameter of Quantisation"),
        ("freeze_after = 5", "bits = 9", "bits must be 1 to 8, or 32 for full precision"),
        ("bits = [2, 1]", "bits = [2, 12]", "bits must be 1 to 8, or 32"),
        ('own = [{ kind = "mlp"', 'own = [{ kind = "mpl"', "Did you mean 'mlp'"),
    ],
)
def test_mistakes_are_named_with_their_place(tmp_path, wrong, right, message):
    with pytest.raises(fl.FedloomError, match=message) as error:
        read(tmp_path, SETTINGS.replace(wrong, right))
    assert "own.toml" in str(error.value)


PERSONAL = [name for name in available() if name.startswith("personal")]
TABLE_5 = ("personal-cifar10-cnn2", "personal-cifar10-cnn2-distilled")  # one table in two files


@pytest.mark.parametrize("name", [name for name in PERSONAL if name not in TABLE_5])
def test_the_settings_that_come_along_are_legal(name):
    assert len(settings.read(available()[name]).algorithms) >= 7


def test_the_two_files_of_table_5_differ_in_the_common_network_alone():
    """Methods with distillation have a common CNN1, the others a CNN2: together ten."""
    plain, distilled = (settings.read(available()[name]) for name in TABLE_5)
    assert not set(plain.algorithms) & set(distilled.algorithms)
    assert len(plain.algorithms) + len(distilled.algorithms) == 10
    for table in ("data", "partition", "run"):
        assert plain.tables[table] == distilled.tables[table]
    assert isinstance(plain.problem, fl.problems.Personal) and not plain.problem.own
    assert distilled.problem.own == plain.problem.model
    assert isinstance(distilled.problem.model, fl.models.CNN1)
