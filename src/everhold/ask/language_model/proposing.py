"""Let a language model propose a reading of a question.

prompt → answer → guard → run → at most one repair
"""

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from everhold.ask.candidates import RankedCandidates, ScopedReadings, rank_together
from everhold.ask.earlier import EarlierQuestion
from everhold.ask.frame import QueryFrame
from everhold.ask.language_model.answers import ModelAnswer, read_answer
from everhold.ask.language_model.calling import BoundedModel, ModelCalls, ModelUse
from everhold.ask.language_model.frame_documents import read_frame
from everhold.ask.language_model.prompt import ConfirmedExample, ModelTask, make_prompt
from everhold.ask.language_model.record import PRIOR, ModelRecord
from everhold.ask.language_model.repairing import FailedStatement, describe_failure, make_repair_prompt
from everhold.ask.language_model.schema_lines import SchemaNotes
from everhold.ask.language_model.statements import correct_quotes, prepare_statement
from everhold.ask.reading import QuestionReading, ReadingOrigin, Readings
from everhold.ask.sql import write_sql
from everhold.ask.wording.frames import describe_frame
from everhold.errors import EverholdError, InvalidInput, InvalidSettings, ModelUnavailable, QueryError, QueryFailed
from everhold.model import TableMetadata
from everhold.ports.data_engine import QueryResult

logger = logging.getLogger(__name__)

# If a reading by rules or patterns has at least this confidence, the model is not asked.
SURE: Final = 0.9
_REPAIR_FACTOR: Final = 5 / 6  # the factor for the confidence of a repaired statement
EMPTY_CONFIDENCE: Final = 0.3  # for a statement without rows, which often compares with a value that does not exist

RunReading = Callable[[QuestionReading], QueryResult]
FindExamples = Callable[[str], Sequence[ConfirmedExample]]
FindNotes = Callable[[Sequence[TableMetadata]], SchemaNotes]


@dataclass(frozen=True)
class ModelOptions:
    """When a model is asked, and what is sent to it. `sends_values` allows values of cells in prompts."""

    is_always_asked: bool = False
    sends_values: bool = False
    seconds: float = 20.0
    prompt_tokens: int = 3_000


class ModelProposal(NamedTuple):
    """The reading that a model proposed. If it is None, `note` says why, or is empty if no model was asked."""

    reading: QuestionReading | None = None
    note: str = ""
    use: ModelUse | None = None


NO_PROPOSAL: Final = ModelProposal()


class _Attempt(NamedTuple):
    """The result of one answer: a reading, or a failure that may be repaired, or neither."""

    sql: str = ""
    reading: QuestionReading | None = None
    failure: FailedStatement | None = None


class ModelSource:
    """Proposes readings by a language model. Its answers become statements that pass the guard, and nothing else."""

    def __init__(
        self,
        model: BoundedModel,
        options: ModelOptions,
        count_tokens: Callable[[str], int],
        find_notes: FindNotes,
        find_examples: FindExamples = lambda question: (),
        find_record: Callable[[], ModelRecord] = ModelRecord,
    ) -> None:
        self._model, self._options, self._count_tokens = model, options, count_tokens
        self._find_notes, self._find_examples, self._find_record = find_notes, find_examples, find_record

    def is_needed(
        self, scoped: ScopedReadings, candidates: RankedCandidates, earlier: Sequence[EarlierQuestion]
    ) -> bool:
        """Return whether to ask the model: if no reading is sure, or if the previous question was answered by a
        model."""
        best = candidates.readings.best
        is_sure = best is not None and not candidates.problems and best.confidence >= SURE
        return self._options.is_always_asked or not is_sure or _follows_statement(scoped, earlier)

    def propose(
        self,
        question: str,
        scoped: ScopedReadings,
        candidates: RankedCandidates,
        earlier: Sequence[EarlierQuestion],
        run: RunReading,
    ) -> ModelProposal:
        """Return the reading that the model proposes. Errors of the model or its server are not raised but noted."""
        task = self._make_task(question, scoped, earlier)
        calls = ModelCalls(self._model, self._options.seconds, self._count_tokens)
        record = self._find_record()
        try:
            attempt = self._ask(task, calls, scoped, run, record.confidence)
        except EverholdError as error:
            logger.warning("the language model %r did not answer: %s", self._model.name, type(error).__name__)
            note = f"the language model {self._model.name!r} was not used: it {_describe_error(error)}"
            return ModelProposal(None, note, self._make_use(calls, "unavailable"))
        if attempt.reading is None:
            note = f"the language model {self._model.name!r} gave no statement that can be used"
            return ModelProposal(None, note, self._make_use(calls, "unusable" if attempt.failure else "declined"))
        if candidates.problems and attempt.reading.confidence <= EMPTY_CONFIDENCE:
            note = f"the statement of the language model {self._model.name!r} has no rows"
            return ModelProposal(None, note, self._make_use(calls, "empty"))
        record_note = f"; {record.describe()}" if record.is_used else ""
        assumptions = [
            f"the language model {self._model.name!r} wrote the statement{record_note}",
            *attempt.reading.assumptions,
            *(f"not understood by the rules: {problem}" for problem in candidates.problems),
        ]
        reading = replace(attempt.reading, assumptions=tuple(assumptions))
        return ModelProposal(reading, "", self._make_use(calls, "proposed"))

    def _make_task(self, question: str, scoped: ScopedReadings, earlier: Sequence[EarlierQuestion]) -> ModelTask:
        return ModelTask(
            question,
            scoped.today,
            scoped.reader.dialect,
            scoped.reader.schema,
            scoped.readings.readings,
            self._find_notes(scoped.tables),
            self._find_examples(question),
            [ConfirmedExample(item.text, item.sql or "") for item in earlier if item.sql],
            self._options.sends_values,
        )

    def _make_use(self, calls: ModelCalls, outcome: str) -> ModelUse:
        return ModelUse(self._model.name, tuple(calls.prompts), self._options.sends_values, outcome)

    def _ask(
        self, task: ModelTask, calls: ModelCalls, scoped: ScopedReadings, run: RunReading, confidence: float
    ) -> _Attempt:
        """Return the result of the model's answer. A failed answer is repaired at most once."""
        prompt = make_prompt(task, self._count_tokens, self._options.prompt_tokens)
        attempt = self._evaluate_answer(calls.ask(prompt), task, scoped, run, confidence)
        if attempt.failure is None:
            return attempt
        repair = make_repair_prompt(prompt, attempt.sql, attempt.failure, task.schema)
        return self._evaluate_answer(calls.ask(repair), task, scoped, run, round(_REPAIR_FACTOR * confidence, 4))

    def _evaluate_answer(
        self, text: str, task: ModelTask, scoped: ScopedReadings, run: RunReading, confidence: float
    ) -> _Attempt:
        answer = read_answer(text, task.dialect)
        if answer.is_none:
            return _Attempt()
        if answer.problem:
            return _Attempt(failure=FailedStatement(answer.problem))
        sql = answer.sql
        try:
            frame, sql = _read_statement(answer, task)
            reading = _make_reading(frame, sql, scoped, confidence)
            result = run(reading)
        except (InvalidInput, QueryFailed) as error:
            failure = describe_failure(error, sql, task.schema, sends_values=task.sends_values)
            return _Attempt(sql, failure=failure)
        except QueryError:  # a limit was reached or the data is missing, so a repaired statement would fail too
            return _Attempt(sql)
        if not result.rows:
            reading = replace(reading, confidence=EMPTY_CONFIDENCE)
        return _Attempt(sql, reading)


def _read_statement(answer: ModelAnswer, task: ModelTask) -> tuple[QueryFrame | None, str]:
    if answer.frame is None:
        return None, correct_quotes(answer.sql, task.dialect, task.schema)
    frame = read_frame(answer.frame, task.schema)
    return frame, write_sql(task.schema, frame, task.dialect)


def _make_reading(frame: QueryFrame | None, sql: str, scoped: ScopedReadings, confidence: float) -> QuestionReading:
    """Return the reading of a statement; raise StatementRefused if the guard refuses it."""
    schema = scoped.reader.schema
    reading = QuestionReading(frame, sql, "", confidence, origin=ReadingOrigin.MODEL)
    scoped.check(reading)  # before anything else reads the statement: the guard limits its size
    statement = prepare_statement(sql, scoped.reader.dialect, schema, scoped.reader.values)
    if statement.assumptions:  # the spelling of a value was corrected, but not in the frame
        frame = None
    restatement = statement.description if frame is None else describe_frame(schema, frame)
    return replace(reading, frame=frame, sql=statement.sql, restatement=restatement, assumptions=statement.assumptions)


def _follows_statement(scoped: ScopedReadings, earlier: Sequence[EarlierQuestion]) -> bool:
    """Return whether the previous question was answered by a statement that the rules did not write."""
    last = earlier[-1].sql if earlier else None
    if last is None or scoped.previous is None:
        return last is not None
    return write_sql(scoped.reader.schema, scoped.previous, scoped.reader.dialect) != last


def _describe_error(error: EverholdError) -> str:
    """Return why a model gave no answer, in words that contain neither its address nor the prompt."""
    match error:
        case InvalidSettings():
            return "refused the key"
        case EverholdError(value=int() as status):
            return f"answered with status {status}"
        case ModelUnavailable(value="ConnectError"):
            return "could not be reached"
        case ModelUnavailable(value="ReadError" | "RemoteProtocolError" | "WriteError"):
            return "broke off the connection"
        case ModelUnavailable():
            return "did not answer in time"
        case _:
            return "answered something other than a chat completion"


def drop_rejected(proposal: ModelProposal, rejected: Collection[str]) -> ModelProposal:
    """Return the proposal; without its reading if users rejected its statement as an answer to the question."""
    if proposal.reading is None or proposal.reading.sql not in rejected:
        return proposal
    return ModelProposal(None, "the statement of the language model was rejected before", proposal.use)


def add_proposal(candidates: RankedCandidates, proposal: ModelProposal) -> RankedCandidates:
    """Return the candidates with the reading of a model added, or with its note if there is no reading."""
    readings = candidates.readings
    if proposal.reading is None and not proposal.note:
        return candidates
    if proposal.reading is None:
        notes = (proposal.note,)
        with_note = tuple(replace(reading, assumptions=reading.assumptions + notes) for reading in readings.readings)
        return candidates._replace(readings=replace(readings, readings=with_note))
    others = () if candidates.problems else readings.readings
    ranked = rank_together(others, [proposal.reading])
    return RankedCandidates(replace(readings, readings=ranked), (), candidates.notes)


def read_offered(sql: str, scoped: ScopedReadings, readings: Readings) -> QuestionReading:
    """Return the reading of a statement that an earlier answer offered; raise StatementRefused if it may no longer
    run."""
    matching = [reading for reading in (*readings.readings, *scoped.readings.readings) if reading.sql == sql]
    return matching[0] if matching else _make_reading(None, sql, scoped, PRIOR)
