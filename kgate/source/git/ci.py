"""What a CI service says about the change under test, in its environment variables and event file."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kgate.source.git.process import GitError

ZEROS = re.compile(r"0{40}(0{24})?")
"""The oid that git and its hosts use for a ref that does not exist."""

_SIGNS = (
    "CI",
    "CONTINUOUS_INTEGRATION",
    "GITHUB_ACTIONS",
    "GITLAB_CI",
    "TF_BUILD",
    "BUILDKITE",
    "JENKINS_URL",
)
_NO = frozenset({"", "0", "false", "no", "off", "never"})
_TARGETS = (
    "GITHUB_BASE_REF",
    "CI_MERGE_REQUEST_TARGET_BRANCH_NAME",
    "SYSTEM_PULLREQUEST_TARGETBRANCH",
    "BITBUCKET_PR_DESTINATION_BRANCH",
    "BUILDKITE_PULL_REQUEST_BASE_BRANCH",
    "CHANGE_TARGET",
)


def in_ci(env: Mapping[str, str]) -> bool:
    """Whether this environment is a CI service's."""
    return any(env.get(sign, "").strip().lower() not in _NO for sign in _SIGNS)


@dataclass(frozen=True)
class Event:
    """What is under test, as the CI service tells it; an empty string where it does not."""

    queue_base: str = ""
    """Commit that a merge queue's group starts from."""
    queue_head: str = ""
    """Commit that the queue would push."""
    merge_ref: bool = False
    """Whether a pull request's merge commit may be checked out; its first parent is the target branch."""
    pull_request: bool = False
    """Whether a pull request is under test at all."""
    diff_base: str = ""
    """Commit that the service itself shows the diff against."""
    target: str = ""
    """Name of the branch that the change is to go to."""
    before: str = ""
    """Commit that the pushed branch pointed to before."""
    default_branch: str = ""
    """Name of the repository's default branch."""
    branch: str = ""
    """Name of the branch under test."""


def read_event(env: Mapping[str, str]) -> Event:
    """Read the event under test. Raises :class:`GitError` where a merge queue's event file cannot be read."""
    target = next((env[name] for name in _TARGETS if env.get(name) and env[name] != "false"), "")
    target = target.removeprefix("refs/heads/")
    if env.get("GITLAB_CI"):
        return _gitlab(env, target)
    return _github(env, target)


def _gitlab(env: Mapping[str, str], target: str) -> Event:
    return Event(
        merge_ref=env.get("CI_MERGE_REQUEST_EVENT_TYPE") in ("merged_result", "merge_train"),
        pull_request=bool(target),
        diff_base=env.get("CI_MERGE_REQUEST_DIFF_BASE_SHA", ""),
        target=target,
        before=_existing(env.get("CI_COMMIT_BEFORE_SHA", "")),
        default_branch=env.get("CI_DEFAULT_BRANCH", ""),
        branch=env.get("CI_COMMIT_BRANCH", ""),
    )


def _github(env: Mapping[str, str], target: str) -> Event:
    name = env.get("GITHUB_EVENT_NAME", "")
    event = _event_file(env, needed=name == "merge_group")
    group = _table(event, "merge_group")
    ref = env.get("GITHUB_REF", "") or env.get("BUILD_SOURCEBRANCH", "")
    return Event(
        queue_base=_text(group, "base_sha") if name in ("merge_group", "") else "",
        queue_head=_text(group, "head_sha") if name in ("merge_group", "") else "",
        merge_ref=bool(re.fullmatch(r"refs/pull/\d+/merge", ref)),
        pull_request=bool(target),
        target=target,
        before=_existing(_text(event, "before")) if name == "push" else "",
        default_branch=_text(_table(event, "repository"), "default_branch"),
        branch=ref.removeprefix("refs/heads/") if ref.startswith("refs/heads/") else "",
    )


def _event_file(env: Mapping[str, str], *, needed: bool) -> Mapping[str, Any]:
    path = env.get("GITHUB_EVENT_PATH", "")
    try:
        with open(path, encoding="utf-8") as file:
            event = json.load(file)
    except (OSError, ValueError) as error:
        if needed:
            raise GitError(
                f"the merge queue's event file GITHUB_EVENT_PATH={path!r} cannot be read: {error}",
                "give the commit to compare with: kgate check --base COMMIT",
            ) from None
        return {}
    return event if isinstance(event, dict) else {}


def _table(event: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = event.get(key)
    return value if isinstance(value, dict) else {}


def _text(event: Mapping[str, Any], key: str) -> str:
    value = event.get(key)
    return value if isinstance(value, str) else ""


def _existing(oid: str) -> str:
    return "" if ZEROS.fullmatch(oid) else oid
