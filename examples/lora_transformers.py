"""LoRA over unlike clients, on a text and on an image transformer; needs transformers and peft.

The networks have the sizes of BERT-tiny and, with fewer layers, ViT-tiny. So that the example runs
offline, BERT begins at random; with `from_pretrained` it begins where you wish.
"""

import numpy as np
import peft
import torch
import transformers

import fedloom as fl

rng = np.random.default_rng(0)
torch.manual_seed(0)


def adapted(module: torch.nn.Module) -> torch.nn.Module:
    """Low-rank changes of the queries and values, and a head that is trained whole."""
    chosen = ["query", "value", "q_proj", "v_proj"]
    return peft.get_peft_model(
        module, peft.LoraConfig(r=4, target_modules=chosen, modules_to_save=["classifier"])
    )


def shown(
    name: str, network: fl.models.Graph, dataset: fl.data.Dataset, rounds: int, lr: float
) -> None:
    """Train it over clients of which each lacks some classes."""
    clients = fl.data.partition(dataset, "dirichlet", clients=5, alpha=0.5, test_fraction=0.2)
    method = fl.algorithms.FedAvg(lr=lr, local_steps=10)
    problem = fl.problems.Supervised(network)
    result = fl.simulate(method, problem, clients, rounds=rounds, batch_size=16, eval_every=rounds)
    trains = sum(array.size for array in network.held.trained.values())
    frozen = sum(array.size for array in network.held.frozen.values())
    first, last = result.rows[0]["accuracy"], result.final["accuracy"]
    print(
        f"{name}: {trains} of {trains + frozen} numbers train; accuracy {first:.3f} to {last:.3f}"
    )


# Texts of 12 words, in two classes with other words in them.
labels = rng.integers(0, 2, 400)
words = rng.integers(2, 8, (400, 12)) + 500 * labels[:, None]
texts = fl.data.Dataset("texts", words.astype(np.int32), labels, np.array(["one", "other"]))
bert = transformers.BertForSequenceClassification(
    transformers.BertConfig(
        vocab_size=1002, hidden_size=128, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=512, max_position_embeddings=16,
    )
)  # fmt: skip
network = fl.models.from_torch(adapted(bert), torch.zeros(1, 12, dtype=torch.int64))
shown("BERT", network, texts, rounds=20, lr=0.3)

digits = fl.data.load("digits")
x, y = digits.x.reshape(-1, 8, 8, 1), digits.y
vit = transformers.ViTForImageClassification(
    transformers.ViTConfig(
        image_size=8, patch_size=2, num_channels=1, hidden_size=192, num_hidden_layers=3,
        num_attention_heads=3, intermediate_size=768, num_labels=10,
    )
)  # fmt: skip
# Trained before, on images that are darker than those of the clients.
optimiser = torch.optim.Adam(vit.parameters(), 1e-3)
for _ in range(150):
    batch = rng.choice(600, 32)
    dark = torch.tensor(0.3 * x[batch], dtype=torch.float32).permute(0, 3, 1, 2)
    optimiser.zero_grad()
    torch.nn.functional.cross_entropy(vit(dark).logits, torch.tensor(y[batch]).long()).backward()
    optimiser.step()
images = fl.data.Dataset("images", x[600:], y[600:], digits.labels)
network = fl.models.from_torch(adapted(vit), torch.zeros(1, 1, 8, 8))
shown("ViT", network, images, rounds=10, lr=0.05)
