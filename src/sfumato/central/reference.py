"""`reference`: landmarks without a public sample, drawn from a normal law whose moments are bought first.

For 5 to 16 bounded columns of numbers, and for tables that have categories beside them. A tenth of epsilon
(`reference_share`) buys means and covariances (`covariances`); points drawn from the normal law that they describe
serve as `landmarks`, with the rest of epsilon. What landmarks see of a record is exact whatever they are, so a law that
suits the records badly costs accuracy and no honesty: the check's Fourier sums measure what is missed (`checking`,
`quantizers.checked`), and bars come from that.

Guarantee. f records differ between neighbours, and each has integers of l2 norm at most S and of l1 norm at most S_1
(`covariances`). Ball noise of rate e_m / (f S), or Laplace noise of rate e_m / (f S_1) where the ball's does not fit,
is e_m-DP (`privacy.ball`). Landmarks are a function of these noisy sums, the noisy count and public numbers; for any
landmarks the release of `central.landmarks` is private at what is left, with the delta where there is one. Adaptive
composition gives (epsilon, delta): one promise, and an entry in the ledger for the count, for the moments and for the
sums. The data are read twice.

Categories. The moments are those of the numbers of all records. Every cell of the table, empty or not, has the
landmarks' features and the check's pairs as sums of its own (`quantizers.cells`), with independent noise of the same
law. Of the f records that differ, k_c fall into cell c, and the k_c add up to f. Ball noise of rate e / (f s) in every
cell changes the probability of any output by a factor of at most exp(sum_c k_c s e / (f s)) = e^e, because the sums of
cell c move by at most k_c s; so does Laplace noise, whose l1 norms add up. A record's pairs of the check lie in one
group of one cell, each in the disc of radius s, and the same sum holds for the groups of all cells (`central.fourier`).
With a delta, what f records change has an l2 norm of at most f times that of one, whatever their cells are, and the
Gaussian noise is calibrated for that. So cells cost no privacy. Landmarks of one law serve all cells: a cell whose
records lie elsewhere is seen less, and its own check says so.

Error: `reference_plan`, and in cells Q times that (`central.cells`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np

from sfumato.central import cells, landmarks
from sfumato.central.covariances import OWN, Covariances, TableMoments
from sfumato.central.reference_plan import LANDMARKS, Design, assumed_variances, designs, normal_points
from sfumato.errors import InputError
from sfumato.kernels import Gaussian, Product
from sfumato.methods.method import Mechanism, Method, Prediction
from sfumato.methods.request import SMALLEST_SHARE, Request
from sfumato.privacy.ball import BallNoise, ball_fits
from sfumato.privacy.guarantee import exact_epsilon
from sfumato.privacy.noise import DiscreteLaplace, rounded_down
from sfumato.public.portable import PublicStream
from sfumato.quantizers import Cells, CheckedLandmarks
from sfumato.quantizers.base import Encoder, Integers
from sfumato.quantizers.nystrom import PublicSample

NAME, MOMENTS = "reference", "moments"
SHARE_OPTION, SHARE = "reference_share", Fraction(1, 10)
OPTIONS = (*landmarks.OPTIONS, SHARE_OPTION)
FEWEST_COLUMNS, MOST_COLUMNS = 5, 16
FEWEST_IN_CELLS = 7  # without a delta: in fewer, a grid in cells has less error than its plan says
SCALES = (128, 64, 32, 16)  # B, the largest at which ball noise can be drawn
LEAST_REACH = 2.0  # half widths in assumed deviations: zeros and ones, and narrower columns, have no normal law
LARGEST_ERROR = 0.5  # of a moment, in assumed variances: beyond, the law would be noise
NEARLY = 1.05  # mean square error beside the least, at which less work is preferred where noise is the same at any rank
MOST_WORK = 5e10  # of all records, some ten seconds of a core: beyond, it is taken where it is asked for
QUICKER = 1.2  # mean square error beside the least, at which a rank within that work is taken


@dataclass(frozen=True, eq=False)
class Purchase:
    """What is bought first, from public facts, and the mechanism that follows from it.

    Attributes
    ----------
    request : Request
        All that is asked for.
    share : Fraction
        The moments' part of epsilon.
    moments : Covariances
        What is summed for them, of the columns of numbers.
    noise : BallNoise or DiscreteLaplace
        Its noise.
    unspent : float
        A delta that was allowed and is not needed.
    """

    request: Request
    share: Fraction
    moments: Covariances
    noise: BallNoise | DiscreteLaplace
    unspent: float = 0.0

    @classmethod
    def of(cls, request: Request) -> Purchase:
        """Choose the integers' scale and their noise."""
        share = _share(request)
        budget = request.epsilon * share / request.factor
        for scale in SCALES:
            moments = Covariances(_numbers(request).box, scale)
            size, bound = moments.size, moments.bound
            length = math.isqrt(bound.l2_squared - 1) + 1
            if (size + 1) * length**2 < 2 * bound.l1**2 and ball_fits(size, budget / length):
                return cls(request, share, moments, BallNoise(size, rounded_down(budget / length)))
        return cls(request, share, moments, DiscreteLaplace.at_most(budget / bound.l1))

    @property
    def encoder(self) -> Encoder:
        """What is summed for the moments, of whole rows."""
        kernel = self.request.kernel
        return TableMoments(kernel, self.moments) if isinstance(kernel, Product) else self.moments

    @property
    def epsilon(self) -> Fraction:
        """What the moments cost."""
        return self.request.epsilon * self.share

    @property
    def error(self) -> float:
        """Deviation of a released square of u."""
        return math.sqrt(self.noise.variance) / (OWN * self.moments.scale**2 * self.request.n)

    @cached_property
    def rest(self) -> Request:
        """What is asked of the landmarks."""
        numbers = _numbers(self.request)
        options = {name: value for name, value in numbers.options.items() if name != SHARE_OPTION}
        return replace(numbers, epsilon=numbers.epsilon - self.epsilon, options=options)

    @cached_property
    def design(self) -> Design:
        """Choose the rank of least predicted error, or nearly so with a delta; a function of public facts only."""
        found = {each: each.mean_square_error(self.rest.density) for each in designs(self.rest, self.error)}
        if not found:
            raise InputError("the budgets for time and space leave no room for synthetic landmarks; pass larger ones")
        least = min(found.values())
        nearly = (NEARLY if self.rest.delta else 1.0) * least
        best = next(each for each, error in found.items() if error <= nearly)
        if self.work(best) <= MOST_WORK or SHARE_OPTION in self.request.options:
            return best
        quick = (each for each in reversed(found) if self.work(each) <= MOST_WORK and found[each] <= QUICKER * least)
        return next(quick, best)

    def work(self, design: Design) -> float:
        """Return the multiplications for all records."""
        return self.rest.n * (landmarks.work_of(self.rest, design.rank, LANDMARKS) + design.check.work_per_record)

    def drawn(self, values: Integers, count: float) -> PublicSample:
        """Draw the landmarks that noisy moments describe."""
        box, (means, covariances) = self.moments.bounds, self.moments.read(values, max(count, 1.0))
        if self.moments.beyond(means):  # the covariances would be those of other records
            covariances = np.diag(assumed_variances(self.rest))
        stream = PublicStream(self.request.feature_seed, "reference/landmarks")
        places = normal_points(means, covariances, self.error, LANDMARKS, stream)
        return PublicSample.of(box.centre + box.half_widths * places, box.dimension)

    def outline(self) -> Mechanism:
        """Build what follows from the moments that a plan assumes: of the size of the real one, before it is paid."""
        return self.mechanism(self.moments.assumed(assumed_variances(self.rest), self.request.n), self.request.n)

    def mechanism(self, values: Integers, count: float) -> Mechanism:
        """Build what the rest of the budget pays for: landmarks that the noisy moments describe."""
        asked, request = replace(self.rest, landmarks=self.drawn(values, count)), self.request
        assert asked.landmarks is not None
        spanned = landmarks.fit(asked.landmarks, asked.kernel, self.moments.bounds, asked.outside).spectrum.rank
        made = landmarks.build(asked.with_options(n_features=min(self.design.rank, spanned)))
        conditions, sizes = [self.moments.bounds.condition()], dict(made.parameters)
        if isinstance(request.kernel, Product):
            made, sizes["cells"] = _in_cells(made, request.kernel, asked), request.kernel.cells
            conditions.append(request.kernel.condition())
        unspent = {"unspent_delta": self.unspent} if self.unspent else {}
        return replace(
            made,
            method=NAME,
            guarantee=request.guarantee(*conditions, "means and covariances are bought first, for synthetic landmarks"),
            parameters={**sizes, SHARE_OPTION: str(self.share), **unspent},
            bought=self.epsilon,
        )


def _in_cells(made: Mechanism, kernel: Product, asked: Request) -> Mechanism:
    """Give every cell the sums of checked landmarks.

    Completion, which is counted by the records and not by a cell's, is left out.
    """
    checked = made.encoder
    assert isinstance(checked, CheckedLandmarks)
    own = replace(checked.landmarks, completion=np.zeros_like(checked.landmarks.completion))
    quantizer = Cells(kernel, replace(checked, landmarks=own))
    noise, loss = cells.gaussian(asked, quantizer) if asked.delta else (made.noise, made.feature_loss)
    return replace(made.on(quantizer), kernel=kernel, noise=noise, feature_loss=loss)


def _numbers(request: Request) -> Request:
    """Return what is asked of the columns of numbers."""
    return cells.inner_request(request, NAME) if isinstance(request.kernel, Product) else request


def _share(request: Request) -> Fraction:
    value = request.options.get(SHARE_OPTION, SHARE)
    share = value if isinstance(value, Fraction) else exact_epsilon(value)
    if not SMALLEST_SHARE <= share <= 1 - SMALLEST_SHARE:
        raise InputError(f"{SHARE_OPTION} must be a number above 0 and below 1, got {float(share):g}")
    return share


def _purchase(request: Request) -> Purchase:
    return request.once(NAME, lambda: Purchase.of(request))


def refuse(request: Request) -> str | None:
    """Why this method does not apply."""
    if isinstance(request.kernel, Product):
        if (reason := cells.too_many(request.kernel)) is not None:
            return reason
        if request.kernel.numbers is None:
            return "it needs columns of numbers"
    numbers = _numbers(request)
    kernel = numbers.kernel
    if request.landmarks is not None:
        return "public points are given: landmarks takes those"
    if not isinstance(kernel, Gaussian) or not kernel.separable:
        return "it needs the Gaussian kernel with one bandwidth, or one for each column"
    if request.bounds is None:
        return "it needs public bounds: pass bounds=, one (lower, upper) pair for each column"
    if not FEWEST_COLUMNS <= numbers.dimension <= MOST_COLUMNS:
        return f"it is for {FEWEST_COLUMNS} to {MOST_COLUMNS} columns"
    if request.projected:
        return "it does not project its records"
    few = numbers.dimension < FEWEST_IN_CELLS and isinstance(request.kernel, Product)
    if few and not request.delta and SHARE_OPTION not in request.options:
        return f"in so few columns a grid in cells is better without a delta: pass {SHARE_OPTION} to have it so"
    variances = assumed_variances(numbers)
    if LEAST_REACH**2 * float(variances.max()) > 1:
        return "a column's bounds are too narrow for a normal law: zeros and ones are better as categories"
    try:
        purchase = _purchase(request)
        if purchase.error > LARGEST_ERROR * float(np.median(variances)):
            return "the moments would be noise: it needs more records or a larger epsilon"
        work = purchase.work(purchase.design)
        if work > MOST_WORK and SHARE_OPTION not in request.options:
            return f"it would take {work:.0e} multiplications for so many records: pass {SHARE_OPTION} to have it so"
    except InputError as reason:
        return str(reason)
    return None


def predict(request: Request, density: float) -> Prediction:
    """Predict error and cost."""
    request.check_options(*OPTIONS)
    if isinstance(request.kernel, Product):
        found = cells.Choice(request, METHOD, _numbers(request)).prediction(density)
        return replace(found, parameters={"n_features": found.parameters["n_features"]})
    design = _purchase(request).design
    check, rank = design.check, design.rank
    work = float(landmarks.work_of(request, rank, LANDMARKS))
    return Prediction(
        rmse=math.sqrt(design.mean_square_error(density)),
        integers=rank + 1 + check.integers,
        file_size=landmarks.file_size(request, rank, LANDMARKS) + check.file_size,
        work_per_record=work + check.work_per_record,
        work_per_query=work + check.work_per_query,
        parameters={"n_features": rank},
    )


def build(request: Request) -> Purchase:
    """Choose what is bought first; what follows is its `Purchase.mechanism`."""
    request.check_options(*OPTIONS)
    return _purchase(request)


METHOD = Method(
    NAME,
    "landmarks of a normal law whose moments are bought",
    OPTIONS,
    refuse,
    predict,
    build,
    categories=True,
)
