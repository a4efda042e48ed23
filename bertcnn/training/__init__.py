"""From labelled token ids to trained weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bertcnn.backend import choose_backend
from bertcnn.doors import door

if TYPE_CHECKING:
    from bertcnn.training.callbacks import BestEpoch as BestEpoch
    from bertcnn.training.callbacks import EndsInTime as EndsInTime
    from bertcnn.training.checkpoint import Checkpoint as Checkpoint
    from bertcnn.training.checkpoint import check_same_settings as check_same_settings
    from bertcnn.training.checkpoint import forget_checkpoints as forget_checkpoints
    from bertcnn.training.cross_fitting import computed_once as computed_once
    from bertcnn.training.cross_fitting import cross_fit as cross_fit
    from bertcnn.training.deadline import Deadline as Deadline
    from bertcnn.training.devices import agreed as agreed
    from bertcnn.training.devices import compute_policy as compute_policy
    from bertcnn.training.devices import is_first as is_first
    from bertcnn.training.devices import join_processes as join_processes
    from bertcnn.training.devices import limit_devices as limit_devices
    from bertcnn.training.devices import own_rows as own_rows
    from bertcnn.training.distillation import Student as Student
    from bertcnn.training.distillation import check_layers as check_layers
    from bertcnn.training.examples import KnownRows as KnownRows
    from bertcnn.training.examples import LabelledTexts as LabelledTexts
    from bertcnn.training.examples import StrangeTexts as StrangeTexts
    from bertcnn.training.examples import TokenizedTexts as TokenizedTexts
    from bertcnn.training.examples import checked_weights as checked_weights
    from bertcnn.training.examples import different_texts as different_texts
    from bertcnn.training.examples import learning_and_validation as learning_and_validation
    from bertcnn.training.features import Features as Features
    from bertcnn.training.features import TokenizedRows as TokenizedRows
    from bertcnn.training.finalize import ModelIdentity as ModelIdentity
    from bertcnn.training.finalize import Outcome as Outcome
    from bertcnn.training.finalize import TrainedModel as TrainedModel
    from bertcnn.training.model_accuracy import accuracy as accuracy
    from bertcnn.training.optimizer import BIASES_AND_NORMALISATION as BIASES_AND_NORMALISATION
    from bertcnn.training.optimizer import LayerwiseAdamW as LayerwiseAdamW
    from bertcnn.training.optimizer import WarmupInverseSquareRoot as WarmupInverseSquareRoot
    from bertcnn.training.optimizer import WarmupLinearDecay as WarmupLinearDecay
    from bertcnn.training.recipe_choice import choose_recipe as choose_recipe
    from bertcnn.training.recipe_choice import fold_count as fold_count
    from bertcnn.training.recipes import recipe_settings as recipe_settings
    from bertcnn.training.recipes import train as train
    from bertcnn.training.refit import Examined as Examined
    from bertcnn.training.refit import examine as examine
    from bertcnn.training.refit import quantization_data as quantization_data
    from bertcnn.training.refit import train_and_refit as train_and_refit
    from bertcnn.training.savepoints import Savepoints as Savepoints
    from bertcnn.training.savepoints import digest as digest
    from bertcnn.training.savepoints import newest_of_first as newest_of_first
    from bertcnn.training.savepoints import savepoint_folder as savepoint_folder
    from bertcnn.training.start import SEEDS as SEEDS
    from bertcnn.training.start import Start as Start
    from bertcnn.training.start import check_seed as check_seed
    from bertcnn.training.start import load_start as load_start
    from bertcnn.training.start import note_device as note_device
    from bertcnn.training.state import FitResult as FitResult
    from bertcnn.training.step import Arrays as Arrays
    from bertcnn.training.step import Part as Part
    from bertcnn.training.step import batch_parts as batch_parts
    from bertcnn.training.step import make_figures as make_figures
    from bertcnn.training.trainer import RATE as RATE
    from bertcnn.training.trainer import Batch as Batch
    from bertcnn.training.trainer import Batches as Batches
    from bertcnn.training.trainer import Epoch as Epoch
    from bertcnn.training.trainer import Saved as Saved
    from bertcnn.training.trainer import Trainer as Trainer
    from bertcnn.training.trainer import TrainerCallback as TrainerCallback
    from bertcnn.training.trainer import by_epochs as by_epochs
    from bertcnn.training.trainer import check_finite as check_finite
    from bertcnn.training.trainer import shuffled as shuffled
    from bertcnn.training.training_data import OutsideRows as OutsideRows
    from bertcnn.training.training_data import RunOptions as RunOptions
    from bertcnn.training.training_data import TrainingData as TrainingData
    from bertcnn.training.vocabulary_pruning import on_used_pieces as on_used_pieces
    from bertcnn.training.vocabulary_pruning import put_back as put_back
    from bertcnn.training.vocabulary_pruning import renumbered as renumbered

__getattr__, __dir__, __all__ = door(__name__, choose_backend)
