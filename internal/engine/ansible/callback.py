# Callback plugin of Legwork: says as JSON lines, on a pipe, how each task goes on each host. Results are read from here and
# never from what Ansible prints. It stands in for the standard output of ansible-playbook, so that every line has its host.
from __future__ import annotations

DOCUMENTATION = """
name: legwork
type: stdout
short_description: results for Legwork
description: Writes one JSON object per line to the file descriptor LEGWORK_EVENTS.
"""

import json
import os
import time

from ansible.plugins.callback import CallbackBase

MOST = 16384  # characters of a text in an event
MOST_LABEL = 1024  # and of the label of a loop item

# Keys of a result that are about the result and not about what a debug task was asked to show.
ABOUT = {"changed", "failed", "skipped", "invocation", "ansible_loop_var", "ansible_index_var", "ansible_loop"}


def text(value, most=MOST):
    if value is None:
        return ""
    if not isinstance(value, str):
        value = json.dumps(value, default=str, ensure_ascii=False, indent=4, sort_keys=True)
    return value[:most]


def shown(values):
    """Returns what a debug task shows: its message, or its variable as "name: value"."""
    if "msg" in values:
        return text(values["msg"])
    names = [key for key in values if key not in ABOUT and not key.startswith("_ansible")]
    others = [key for key in names if key != values.get("ansible_loop_var")]
    return "\n".join(key + ": " + text(values[key]) for key in others or names)[:MOST]


def label(values):
    """Returns the label of a loop item as Ansible prints it."""
    variable = values.get("ansible_loop_var", "item")
    return text(values.get("_ansible_item_label", values.get(variable)), MOST_LABEL)


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "legwork"

    def __init__(self):
        super().__init__()
        self._pipe = os.fdopen(int(os.environ.pop("LEGWORK_EVENTS")), "w", encoding="utf-8", errors="replace")
        self._began = {}  # when a task began, by task
        self._items = {}  # when the last loop item ended, by task and host

    def _say(self, kind, **fields):
        fields["kind"] = kind
        self._pipe.write(json.dumps(fields, default=str, ensure_ascii=False) + "\n")
        self._pipe.flush()

    def _since(self, kind, task, host):
        now = time.time()
        began = self._began.get(task._uuid, now)
        if kind == "item":
            began = self._items.get((task._uuid, host), began)
            self._items[(task._uuid, host)] = now
        return now - began

    def _result(self, status, result, ignored=False, kind="result"):
        values = result._result
        task = result._task
        host = result._host.get_name()
        hidden = bool(values.get("_ansible_no_log") or task.no_log)
        fields = {
            "host": host,
            "task": task.get_name(),
            "action": task.action,
            "status": status,
            "ignored": ignored,
            "loop": "results" in values and bool(task.loop),
            "seconds": self._since(kind, task, host),
        }
        if kind == "item":
            fields["item"] = "(hidden by no_log)" if hidden else label(values)
        if status == "retry":
            fields["retries_left"] = int(values.get("retries", 0)) - int(values.get("attempts", 0))
        if not hidden:
            if values.get("_ansible_verbose_always") and status == "ok":
                fields["message"] = shown(values)
            else:
                fields["message"] = text(values.get("msg"))
            if isinstance(values.get("rc"), int):
                fields["exit_code"] = values["rc"]
            fields["reason"] = text(values.get("exception") or values.get("module_stderr") if status in ("failed", "unreachable") else None)
            fields["stdout"] = text(values.get("stdout"))
            fields["stderr"] = text(values.get("stderr"))
            if values.get("diff"):
                try:
                    fields["diff"] = text(self._get_diff(values["diff"]))
                except Exception:  # a module may give a diff of any form
                    fields["diff"] = text(values["diff"])
        self._say(kind, **fields)

    def v2_playbook_on_play_start(self, play):
        self._say("play", task=text(play.get_name()))

    def _task(self, kind, task):
        self._began[task._uuid] = time.time()
        self._say(kind, task=text(task.get_name()))

    def v2_playbook_on_task_start(self, task, is_conditional):
        self._task("task", task)

    def v2_playbook_on_handler_task_start(self, task):
        self._task("handler", task)

    def v2_playbook_on_no_hosts_matched(self):
        self._say("notice", message="no host matches what the play asks for")

    def v2_playbook_on_notify(self, handler, host):
        pass

    def v2_runner_on_ok(self, result):
        self._result("changed" if result._result.get("changed") else "ok", result)

    def v2_runner_on_failed(self, result, ignore_errors=False):
        self._result("failed", result, ignored=ignore_errors)

    def v2_runner_on_skipped(self, result):
        self._result("skipped", result)

    def v2_runner_on_unreachable(self, result):
        self._result("unreachable", result)

    def v2_runner_item_on_ok(self, result):
        self._result("changed" if result._result.get("changed") else "ok", result, kind="item")

    def v2_runner_item_on_failed(self, result):
        self._result("failed", result, kind="item")

    def v2_runner_item_on_skipped(self, result):
        self._result("skipped", result, kind="item")

    def v2_runner_retry(self, result):
        self._result("retry", result)

    def v2_playbook_on_stats(self, stats):
        for host in sorted(stats.processed.keys()):
            self._say("summary", host=host, counts=stats.summarize(host))
