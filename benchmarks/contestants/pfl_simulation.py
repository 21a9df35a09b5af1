"""pfl's `SimulatedBackend` with `FederatedAveraging` in one process, on in-memory tensors.

pfl takes the users in turn (`minimize_reuse`, the sampler that its documentation advises) and a
user's rows in the order in which they lie, and `local_num_steps` ends early where the rows run out.
So what a user brings to a round is the rows of its local steps, drawn with replacement.
"""

from benchmarks.contestants.networks import in_torch
from benchmarks.timing import contest
from benchmarks.workloads import Workload, arrays


def prepare(w: Workload, cores: int | None):
    import numpy as np
    import torch
    from pfl.aggregate.simulate import SimulatedBackend
    from pfl.aggregate.weighting import WeightByUser
    from pfl.algorithm.base import NNAlgorithmParams
    from pfl.algorithm.federated_averaging import FederatedAveraging
    from pfl.data.federated_dataset import FederatedDataset
    from pfl.data.pytorch import PyTorchTensorDataset
    from pfl.data.sampling import get_user_sampler
    from pfl.hyperparam import NNTrainHyperParams
    from pfl.model.pytorch import PyTorchModel

    torch.set_num_threads(1)
    x, y = arrays(w)
    features = torch.from_numpy(np.moveaxis(x, -1, 2) if w.is_image else x)
    labels = torch.from_numpy(y if w.is_image else y.astype(np.float32))

    def local_data(user: int) -> PyTorchTensorDataset:
        rows = torch.randint(w.rows, (w.steps * w.batch,))
        return PyTorchTensorDataset((features[user, rows], labels[user, rows]))

    users = FederatedDataset(local_data, get_user_sampler("minimize_reuse", range(w.clients)))
    backend = SimulatedBackend(users, users, postprocessors=[WeightByUser()])
    algorithm = FederatedAveraging()
    network = _network(w)
    model = PyTorchModel(network, torch.optim.SGD, torch.optim.SGD(network.parameters(), lr=1.0))
    training = NNTrainHyperParams(
        local_batch_size=w.batch,
        local_num_epochs=None,
        local_num_steps=w.steps,
        local_learning_rate=w.lr,
    )
    done = 0

    def run(rounds: int) -> None:
        nonlocal done
        done += rounds
        total = NNAlgorithmParams(
            central_num_iterations=done,
            evaluation_frequency=10**9,  # in the very first round, which is not measured
            train_cohort_size=w.cohort,
            val_cohort_size=None,
        )
        algorithm.run(total, backend, model, training, send_metrics_to_platform=False)

    return run


def _network(w: Workload):
    import torch
    from pfl.metrics import Weighted
    from torch import nn

    criterion = nn.CrossEntropyLoss() if w.is_image else nn.BCEWithLogitsLoss()

    class Network(nn.Sequential):
        def loss(self, inputs, targets):
            return criterion(self(inputs), targets)

        @torch.no_grad()
        def metrics(self, inputs, targets):
            return {"loss": Weighted.from_unweighted(self.loss(inputs, targets).item())}

    if not w.is_image:
        return Network(nn.Linear(w.features[0], 1, bias=False), nn.Flatten(0))
    return Network(in_torch(w.name))


if __name__ == "__main__":
    contest(prepare)
