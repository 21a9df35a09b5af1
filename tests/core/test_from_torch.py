"""PyTorch modules into graphs and back, where PyTorch is installed."""

import copy

import jax
import numpy as np
import pytest

import fedloom as fl
from fedloom.cli.main import main
from fedloom.draws import key
from fedloom.models.graph.from_torch import torch_here
from fedloom.models.graph.in_training import draws
from fedloom.rows import Drawn, Spec

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
nn = torch.nn

LR, STEPS, ROUNDS = 0.2, 3, 2
SPEC = Spec((8, 8, 1), 10, "float32")


class Network(nn.Module):
    """A convolution, and a head whose weights are tied to another's."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 3, 3, padding=1)
        self.head = nn.Linear(48, 10)
        self.other = nn.Linear(48, 10)
        self.other.weight = self.head.weight
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        x = torch.flatten(torch.max_pool2d(torch.relu(self.conv(x)), 2), 1)
        return self.head(self.drop(x)) + self.other(x)


@pytest.fixture(scope="module")
def module():
    torch.manual_seed(0)
    return Network().eval()  # without dropout


@pytest.fixture(scope="module")
def graph(module):
    return fl.models.from_torch(module, torch.zeros(1, 1, 8, 8))


@pytest.fixture(scope="module")
def clients():
    digits = fl.data.load("digits")
    dataset = fl.data.Dataset(
        "small", digits.x[:60].reshape(-1, 8, 8, 1), digits.y[:60], digits.labels
    )
    return fl.data.partition(dataset, "iid", clients=2)


def test_tied_weights_are_one_array_and_the_module_is_left_as_it_was(module, graph):
    assert set(graph.init(jax.random.key(0), SPEC)) == {
        *("conv.weight", "conv.bias", "head.weight", "head.bias", "other.bias"),
    }
    assert not module.training and module.drop.p == 0.5 and not draws(graph.held.program)


def test_dropout_is_kept_of_a_module_in_training_mode(module, graph):
    own = copy.deepcopy(module).train()
    network = fl.models.from_torch(own, torch.zeros(1, 1, 8, 8))
    assert own.training and draws(network.held.program)
    arrays, x = network.init(jax.random.key(0), SPEC), np.random.rand(4, 8, 8, 1).astype("float32")
    np.testing.assert_array_equal(network.apply(arrays, x), graph.apply(arrays, x))
    trained = network.train_apply(arrays, x, Drawn(key(0), None))
    assert not np.allclose(trained, graph.apply(arrays, x), atol=1e-3)


def test_other_chances_are_named_with_their_place():
    module = nn.Sequential(nn.Linear(4, 4), nn.AlphaDropout(0.2))
    with pytest.raises(fl.FedloomError, match=r"the operation aten\.bernoulli\.p in 1\..*eval\(\)"):
        fl.models.from_torch(module, torch.zeros(1, 4))
    assert fl.models.from_torch(module.eval(), torch.zeros(1, 4)).row == (4,)


def test_fedavg_is_that_of_a_loop_in_pytorch(module, graph, clients, tmp_path):
    result = fl.simulate(
        fl.algorithms.FedAvg(lr=LR, local_steps=STEPS),
        fl.problems.Supervised(graph), clients, rounds=ROUNDS, batch_size=None,
    )  # fmt: skip
    common = Network()
    common.load_state_dict(module.state_dict())
    common.eval()
    for _ in range(ROUNDS):
        changes = []
        for client in range(len(clients)):
            rows = clients.of(client)
            x = torch.tensor(rows.x, dtype=torch.float32).permute(0, 3, 1, 2)
            own = Network().eval()
            own.load_state_dict(common.state_dict())
            optimiser = torch.optim.SGD(own.parameters(), LR)
            for _ in range(STEPS):
                optimiser.zero_grad()
                nn.functional.cross_entropy(own(x), torch.tensor(rows.y).long()).backward()
                optimiser.step()
            changes.append(own.state_dict())
        mean = {name: sum(c[name] for c in changes) / len(changes) for name in changes[0]}
        common.load_state_dict(mean)
    back = result.to_torch(Network()).eval()
    assert back.other.weight is back.head.weight
    for name, tensor in common.state_dict().items():
        np.testing.assert_allclose(back.state_dict()[name], tensor, atol=2e-6, err_msg=name)
    result.save(tmp_path / "run")
    again = fl.load(tmp_path / "run").to_torch(Network())
    assert torch.equal(again.conv.weight, back.conv.weight)


def test_a_client_of_a_personal_method_takes_its_own_network_home(graph, clients):
    method = fl.algorithms.LocalTraining(lr=LR)
    problem = fl.problems.Personal(graph)
    result = fl.simulate(method, problem, clients, rounds=1, batch_size=8)
    one, other = (
        fl.deploy.take(method, problem, clients, result, client).to_torch(Network())
        for client in (0, 1)
    )
    assert not torch.equal(one.head.weight, other.head.weight)
    with torch.no_grad():
        x = torch.rand(3, 1, 8, 8)
        scores = fl.deploy.take(method, problem, clients, result, 0).predict(
            x.permute(0, 2, 3, 1).numpy()
        )
        np.testing.assert_allclose(one.eval()(x), scores, atol=1e-5)


def test_to_torch_refuses_what_does_not_fit(graph):
    arrays = graph.init(jax.random.key(0), SPEC)
    with pytest.raises(fl.FedloomError, match=r"head\.weight.*where it is not there"):
        fl.models.to_torch(nn.Sequential(nn.Linear(2, 2)), {"head.weight": arrays["head.weight"]})
    with pytest.raises(fl.FedloomError, match="is not one of a graph"):
        fl.models.to_torch(Network(), [arrays])


class Strange(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(4, 4), Bessel())

    def forward(self, x):
        return self.inner(x)


class Bessel(nn.Module):
    def forward(self, x):
        return torch.special.i0(x)


def test_an_unknown_operation_is_named_with_its_place_in_the_module():
    with pytest.raises(fl.FedloomError) as caught:
        fl.models.from_torch(Strange(), torch.zeros(1, 4))
    said = str(caught.value)
    assert "the operation aten.special_i0.default in inner.1 (File " in said
    assert "test_from_torch.py" in said


def test_batch_norms_need_a_choice():
    module = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 2))
    choices = r"has batch norms .1.*norm='group'.*norm='frozen'.*norm='local'"
    with pytest.raises(fl.FedloomError, match=choices):
        fl.models.from_torch(module, torch.zeros(1, 4))
    assert isinstance(module[1], nn.BatchNorm1d)
    with pytest.raises(fl.FedloomError, match="norm must be 'group', 'frozen', 'local' or none"):
        fl.models.from_torch(module, torch.zeros(1, 4), norm="batch")


def test_trained_statistics_come_back_into_the_buffers():
    torch.manual_seed(1)
    module = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
    network = fl.models.from_torch(module, torch.zeros(1, 4), norm="local")
    assert set(network.norm_arrays) == {
        *("1.weight", "1.bias", "1.running_mean", "1.running_var"),
    }
    clients = fl.data.partition(fl.data.load("iris"), "iid", clients=2)
    result = fl.simulate(
        fl.algorithms.FedAvg(lr=0.1, local_steps=2),
        fl.problems.Supervised(network), clients, rounds=2, batch_size=8,
    )  # fmt: skip
    result.to_torch(module, norm="local")
    assert module[1].running_mean.abs().max() > 0.01  # they began at 0
    x = torch.tensor(clients.train.x[:9], dtype=torch.float32)
    with torch.no_grad():
        scores = network.apply(result.model, x.numpy())
        np.testing.assert_allclose(module.eval()(x), scores, atol=1e-5)


def test_a_module_that_cannot_be_one_is_refused():
    with pytest.raises(fl.FedloomError, match="must return one tensor"):
        fl.models.from_torch(nn.LSTM(4, 3, batch_first=True), torch.zeros(1, 5, 4))
    with pytest.raises(fl.FedloomError, match="has nothing to train"):
        fl.models.from_torch(nn.Linear(4, 2).requires_grad_(False), torch.zeros(1, 4))
    with pytest.raises(fl.FedloomError, match="example must be rows"):
        fl.models.from_torch(nn.Linear(4, 2), torch.tensor(1.0))


def test_the_command_makes_a_file_that_a_settings_file_names(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(
        "import torch\ndef build():\n    return torch.nn.Linear(4, 3)\n"
    )
    out = tmp_path / "net.safetensors"
    command = ["import-torch", "mine.py:build", "--example", "1,4", "--out", str(out)]
    assert main(command) == 0
    assert "1 operations; 15 numbers are trained, 0 are frozen" in capsys.readouterr().out
    assert fl.models.Graph(str(out)).row == (4,)
    assert main(command) == 2 and "is there already" in capsys.readouterr().err
    assert main([*command[:3], "a,b", "--out", "new"]) == 2
    assert "--example must be whole numbers" in capsys.readouterr().err
    assert main(["import-torch", "mine.py:torch", *command[2:4], "--out", "new"]) == 2


def test_without_pytorch_it_says_what_is_missing(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    with pytest.raises(fl.FedloomError, match="needs PyTorch"):
        torch_here()
