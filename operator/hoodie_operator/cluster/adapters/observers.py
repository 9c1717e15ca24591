"""Observers of a cluster: kept as declared, and asked over HTTP.

They are asked at the operator's pace, many tables with one question; what they tell is never
written to the API server, so that tables at rest cost it nothing (docs/adr/0013). An observer is
its tenant's: what it answers is bounded (`guests`, `holdings`), and may be nonsense.
"""

import asyncio
import dataclasses
import http
import logging
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import aiohttp

from hoodie import clock, errors
from hoodie.model import json_values
from hoodie_operator.api import configuration, fields, objects, resources
from hoodie_operator.api.resources import Manifest
from hoodie_operator.cluster.adapters import guests, holdings, names
from hoodie_operator.cluster.adapters.server_diagnosis import ServerDiagnosis
from hoodie_operator.cluster.client import api_errors
from hoodie_operator.cluster.client.api import Api
from hoodie_operator.cluster.control.ports import TableLook
from hoodie_operator.manifests import naming
from hoodie_operator.manifests import observers as manifests
from hoodie_operator.observing import dialogue
from hoodie_operator.reconcile import facts

logger = logging.getLogger(__name__)

Answer = TypeVar("Answer")
FactT = TypeVar("FactT", facts.TableFacts, facts.SourceFacts)

_START_S: Final = 90.0
"""An observer that was made a moment ago, and is not there, starts; later, it is missing."""

_ROUNDS: Final = 3
"""So many time limits of one look a question may take, since looks wait for each other."""

_CONNECT_S: Final = 3.0
_KNOWN_MS: Final = 3_600_000
_TOKEN_BYTES: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """What was told last of a table or a source.

    Attributes:
        asked: What was asked; of something else it says nothing.
        digest: Of what was told.
        fact: What was told.
    """

    asked: dialogue.TableQuestion | dialogue.SourceQuestion
    digest: str
    fact: facts.TableFacts | facts.SourceFacts


class _SilentError(errors.StorageError):
    """An observer gave no answer."""


class _NonsenseError(errors.FormatError):
    """An observer gave an answer that is none."""


class ClusterObservers:
    """The observers of one cluster."""

    def __init__(
        self,
        api: Api,
        told: configuration.Configuration,
        operator_clock: clock.Clock,
        *,
        address_of: Callable[[manifests.Identity], str] | None = None,
    ) -> None:
        """Take the API server and the operator's configuration.

        Args:
            api: Where observers are made.
            told: The configuration.
            operator_clock: For when something was seen.
            address_of: Where an observer answers; by default its Service.
        """
        self._api = api
        self._told = told
        self._clock = operator_clock
        self._address_of = address_of or (lambda identity: identity.address)
        self._silences = ServerDiagnosis(api, operator_clock)
        self._session: aiohttp.ClientSession | None = None
        self._tokens: dict[str, str] = {}
        self._made_s: dict[str, float] = {}
        self._unmade: dict[str, errors.HoodieError] = {}
        self._answered: set[str] = set()
        self._known: dict[str, _Known] = {}
        self._answers = guests.Answers()
        self._names = names.Names()
        self._holdings = holdings.Holdings(fields.size_bytes(told.observers.memory))

    async def close(self) -> None:
        """Close the connections to observers."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    def observer_of(self, table: objects.Table) -> str:
        """Return what tells the observer of a table from all others."""
        return manifests.identity(table, self._told).address

    async def look_at_tables(
        self, looks: Sequence[TableLook]
    ) -> Mapping[str, facts.TableFacts | None]:
        """Return what tables tell now, by the uid of their HudiTable.

        All observers concerned are asked at once. A table whose observer gives no answer has a
        transient problem in its facts, or None where an observer only starts. Nothing is raised.
        """
        groups: dict[str, tuple[manifests.Identity, list[TableLook]]] = {}
        for look in looks:
            identity = manifests.identity(look.table, self._told)
            groups.setdefault(identity.address, (identity, []))[1].append(look)
        questions = [
            self._ask_about_tables(identity, group[start : start + dialogue.TABLES_MAX])
            for identity, group in groups.values()
            for start in range(0, len(group), dialogue.TABLES_MAX)
        ]
        found: dict[str, facts.TableFacts | None] = {}
        for answer in await asyncio.gather(*questions):
            found.update(answer)
        return found

    async def _ask_about_tables(
        self, identity: manifests.Identity, looks: Sequence[TableLook]
    ) -> dict[str, facts.TableFacts | None]:
        asked_ms = clock.monotonic_ms(self._clock)
        asked = [
            dialogue.TableQuestion(
                uri=look.uri, settings=look.settings, mirror=look.table.spec.mirror.consumer
            )
            for look in looks
        ]
        uids = [look.table.uid for look in looks]
        question = dialogue.TablesQuestion(
            tables=tuple(
                dataclasses.replace(each, known=self._digest(uid, each))
                for each, uid in zip(asked, uids, strict=True)
            )
        )
        try:
            answer = await self._ask(
                identity, dialogue.TABLES_PATH, question, dialogue.TablesAnswer, len(looks)
            )
            if len(answer.tables) != len(looks):
                raise _NonsenseError(f"{len(answer.tables)} tables, expected {len(looks)}")
        except errors.HoodieError as error:
            problem = await self._problem(identity, error)
            fact = None
            if problem is not None:
                fact = facts.TableFacts(observed_ms=asked_ms, problem=problem)
            return dict.fromkeys(uids, fact)
        return {
            look.table.uid: self._heard_table(look, each, told, asked_ms)
            for look, each, told in zip(looks, asked, answer.tables, strict=True)
        }

    def _heard_table(
        self,
        look: TableLook,
        asked: dialogue.TableQuestion,
        told: dialogue.TableAnswer,
        asked_ms: int,
    ) -> facts.TableFacts | None:
        """Return what an answer tells of a table; None where it leaves it for the next question."""
        table, uid = look.table, look.table.uid
        if told.is_left:
            return None
        try:
            if told.table is None:
                same = dataclasses.replace(
                    self._same(uid, asked, facts.TableFacts), observed_ms=asked_ms
                )
                self._known[uid] = dataclasses.replace(self._known[uid], fact=same)
                return same
            fact = dialogue.heard_table(told.table, asked_ms)
            self._hold(table, dialogue.memory_bytes(json_values.encode(told.table)))
        except errors.HoodieError as error:
            return facts.TableFacts(observed_ms=asked_ms, problem=self._forgotten(uid, error))
        self._known[uid] = _Known(asked=asked, digest=told.digest, fact=fact)
        return fact

    def _same(
        self,
        uid: str,
        asked: dialogue.TableQuestion | dialogue.SourceQuestion,
        fact_type: type[FactT],
    ) -> FactT:
        """Return what is known, of which an observer says that it is the same.

        Raises:
            _NonsenseError: Nothing is known that could be.
        """
        known = self._known.get(uid)
        if known is None or known.asked != asked or not isinstance(known.fact, fact_type):
            raise _NonsenseError("that nothing has changed, where nothing is known")
        return known.fact

    def _hold(self, found: objects.AnyObject, size: int) -> None:
        """Count what is held of an object.

        Raises:
            UnsupportedError: There is no room for it.
        """
        if not self._holdings.hold(found.key.namespace, found.uid, size):
            raise errors.UnsupportedError(
                f"the tables and sources of namespace {found.key.namespace} need more memory than "
                f"their share of observers.memory ({self._told.observers.memory}); raise it in the "
                "operator's configuration, and the memory limit of its container"
            )

    def _forgotten(self, uid: str, error: errors.HoodieError) -> facts.Problem:
        """Return why nothing is known of an object any more."""
        self._known.pop(uid, None)
        self._holdings.release(uid)
        return _problem_of(error)

    async def look_at_source(
        self, writer: objects.Writer, table: objects.Table
    ) -> facts.SourceFacts | None:
        """Return what a Writer's source tells now; None while its observer starts."""
        identity = manifests.identity(table, self._told)
        asked_ms = clock.monotonic_ms(self._clock)
        plain = dialogue.source_question(writer.spec.source)
        question = dataclasses.replace(plain, known=self._digest(writer.uid, plain))
        try:
            answer = await self._ask(
                identity, dialogue.SOURCE_PATH, question, dialogue.SourceAnswer, 1
            )
        except errors.HoodieError as error:
            problem = await self._problem(identity, error)
            if problem is None:
                return None
            return facts.SourceFacts(
                generation=writer.generation, observed_ms=asked_ms, problem=problem
            )
        try:
            fact = self._heard_source(writer, plain, answer, asked_ms)
        except errors.HoodieError as error:
            return facts.SourceFacts(
                generation=writer.generation,
                observed_ms=asked_ms,
                problem=self._forgotten(writer.uid, error),
            )
        return fact

    def _heard_source(
        self,
        writer: objects.Writer,
        asked: dialogue.SourceQuestion,
        answer: dialogue.SourceAnswer,
        asked_ms: int,
    ) -> facts.SourceFacts:
        if answer.source is None:
            same = dataclasses.replace(
                self._same(writer.uid, asked, facts.SourceFacts),
                generation=writer.generation,
                observed_ms=asked_ms,
            )
            self._known[writer.uid] = dataclasses.replace(self._known[writer.uid], fact=same)
            return same
        fact = dialogue.heard_source(answer.source, writer.generation, asked_ms)
        self._hold(writer, dialogue.memory_bytes(json_values.encode(answer.source)))
        self._known[writer.uid] = _Known(asked=asked, digest=answer.digest, fact=fact)
        return fact

    def _digest(self, uid: str, asked: dialogue.TableQuestion | dialogue.SourceQuestion) -> str:
        """Return the digest of what is known, if it was told of what is asked now."""
        known = self._known.get(uid)
        return known.digest if known is not None and known.asked == asked else ""

    async def _problem(
        self, identity: manifests.Identity, error: errors.HoodieError
    ) -> facts.Problem | None:
        """Return what is to be said of a silent observer; None of one that only starts."""
        if isinstance(error, _NonsenseError):
            return _problem_of(error)
        unmade = self._unmade.get(identity.address)
        if unmade is not None:
            return facts.Problem(
                kind=unmade.kind,
                message=(
                    f"Deployment {identity.name} of namespace {identity.namespace}, which reads "
                    f"the storage, cannot be made as declared: {unmade}"
                ),
                is_transient=True,
            )
        made_s = self._made_s.get(identity.address)
        is_new = identity.address not in self._answered
        if is_new and (made_s is None or self._clock.monotonic_s() - made_s < _START_S):
            return None
        message = (
            f"Deployment {identity.name} of namespace {identity.namespace}, which reads the "
            f"storage, does not answer: {error}"
        )
        return facts.Problem(
            kind=errors.StorageError.kind,
            message=await self._silences.diagnose(message, manifests.server(identity)),
            is_transient=True,
        )

    async def _ask(
        self,
        identity: manifests.Identity,
        path: str,
        question: object,
        answer_type: type[Answer],
        looks: int,
    ) -> Answer:
        """Ask an observer one question.

        Raises:
            HoodieError: There is no answer to be had.
        """
        if self._session is None:
            self._session = guests.session(self._names)
        rounds = _ROUNDS + looks / self._told.observers.threads
        limit_s = fields.duration_ms(self._told.observers.time_limit) / 1000 * rounds
        address = f"{self._address_of(identity)}{path}"
        token = await self._token(identity)
        try:
            async with (
                self._answers.turn(identity.namespace),
                self._session.post(
                    address,
                    data=json_values.encode(question),
                    headers={"Authorization": f"Bearer {token}"},
                    timeout=aiohttp.ClientTimeout(total=limit_s, sock_connect=_CONNECT_S),
                    allow_redirects=False,
                ) as answer,
            ):
                if answer.status == http.HTTPStatus.UNAUTHORIZED:
                    # Somebody has renewed the Secret, or the pod has not seen ours yet.
                    self._tokens.pop(identity.address, None)
                if answer.status != http.HTTPStatus.OK:
                    raise _SilentError(f"it answers {answer.status}")
                content = await self._answers.read(answer, identity.namespace)
        except (aiohttp.ClientError, OSError, TimeoutError, errors.StorageError) as error:
            raise _SilentError(str(error) or type(error).__name__) from error
        try:
            decoded = json_values.decode(answer_type, content, "its answer")
        except errors.InvalidInputError as error:
            raise _NonsenseError(str(error)) from error
        self._answered.add(identity.address)
        return decoded

    async def keep(self, tables: Sequence[objects.Table]) -> None:
        """See to it that the observers of these tables run, as declared, and no others.

        Raises:
            HoodieError: One of them could not be seen to; all others were.
        """
        wanted: dict[str, manifests.Identity] = {}
        observed: dict[str, list[objects.Table]] = {}
        for table in tables:
            identity = manifests.identity(table, self._told)
            wanted[identity.address] = identity
            observed.setdefault(identity.address, []).append(table)
        unmade: dict[str, errors.HoodieError] = {}
        for address, identity in wanted.items():
            try:
                await self._make(identity, observed[address])
            except errors.HoodieError as error:
                unmade[address] = error
        self._unmade = unmade
        names = {(identity.namespace, identity.name) for identity in wanted.values()}
        for found in await self._made():
            metadata = found["metadata"]
            if (metadata["namespace"], metadata["name"]) not in names:
                await self._remove(found)
        # Nobody asks any more for what is gone.
        since_ms = clock.monotonic_ms(self._clock) - _KNOWN_MS
        for uid in [uid for uid, each in self._known.items() if each.fact.observed_ms <= since_ms]:
            del self._known[uid]
            self._holdings.release(uid)
        if unmade:
            raise next(iter(unmade.values()))

    async def _make(self, identity: manifests.Identity, observed: Sequence[objects.Table]) -> None:
        await self._api.apply(manifests.service(identity, observed))
        versions = {
            name: await self._api.version(resources.SECRET, identity.namespace, name) or ""
            for name in identity.storage.secrets or ()
        }
        made = await self._api.apply(manifests.deployment(identity, self._told, observed, versions))
        # Whoever deleted the Secret did not tell us. Pods wait for it.
        await self._made_token(identity, made["metadata"]["uid"])
        self._made_s.setdefault(identity.address, self._clock.monotonic_s())

    async def _made(self) -> list[Manifest]:
        """Return the Deployments of all observers that there are."""
        namespaces: Sequence[str | None] = self._told.watch_namespaces or (None,)
        labels = f"{resources.MANAGED_SELECTOR},{naming.ROLE}={naming.OBSERVER}"
        found: list[Manifest] = []
        for namespace in namespaces:
            found.extend((await self._api.list(resources.DEPLOYMENT, namespace, labels)).items)
        return [each for each in found if manifests.is_observer(each)]

    async def _remove(self, deployment: Manifest) -> None:
        metadata = deployment["metadata"]
        namespace, name = metadata["namespace"], metadata["name"]
        logger.info("observer %s of namespace %s is not needed any more", name, namespace)
        # By its Deployment it is found until all of it is gone.
        await self._api.delete(resources.SERVICE, namespace, name)
        secret = await self._api.get(resources.SECRET, namespace, name)
        if secret is not None and manifests.is_part(secret, name):
            uid = secret["metadata"]["uid"]
            await self._api.delete(resources.SECRET, namespace, name, uid=uid)
        await self._api.delete(
            resources.DEPLOYMENT, namespace, name, uid=metadata["uid"], propagation="Background"
        )
        address = manifests.address(namespace, name)
        self._tokens.pop(address, None)
        self._made_s.pop(address, None)
        self._answered.discard(address)

    async def _token(self, identity: manifests.Identity) -> str:
        """Return the token of an observer, as it was last known.

        Raises:
            HoodieError: None is known, and it could not be read.
        """
        known = self._tokens.get(identity.address)
        if known is not None:
            return known
        there = await self._api.get(resources.SECRET, identity.namespace, identity.name)
        return self._read_token(identity, there)

    async def _made_token(self, identity: manifests.Identity, deployment_uid: str) -> str:
        """Return the token of an observer as its Secret has it, made if there is none.

        Raises:
            HoodieError: It could neither be read nor made.
        """
        there = await self._api.get(resources.SECRET, identity.namespace, identity.name)
        if there is None:
            token = secrets.token_urlsafe(_TOKEN_BYTES)
            made = manifests.secret(identity, token, deployment_uid)
            try:
                there = await self._api.create(made)
            except api_errors.AlreadyExistsError:
                there = await self._api.get(resources.SECRET, identity.namespace, identity.name)
        return self._read_token(identity, there)

    def _read_token(self, identity: manifests.Identity, there: Manifest | None) -> str:
        token = None if there is None else manifests.token_of(there)
        if token is None:
            raise _SilentError(
                f"Secret {identity.name} of namespace {identity.namespace} has no token"
            )
        self._tokens[identity.address] = token
        return token


def _problem_of(error: errors.HoodieError) -> facts.Problem:
    is_nonsense = isinstance(error, _NonsenseError)
    message = f"its observer answers nonsense: {error}" if is_nonsense else str(error)
    return facts.Problem(kind=error.kind, message=message, is_transient=is_nonsense)
