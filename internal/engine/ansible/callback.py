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

MOST = 16384  # bytes of a text in an event


def text(value):
    if value is None:
        return ""
    if not isinstance(value, str):
        value = json.dumps(value, default=str)
    return value[:MOST]


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "legwork"

    def __init__(self):
        super().__init__()
        self._pipe = os.fdopen(int(os.environ.pop("LEGWORK_EVENTS")), "w", encoding="utf-8", errors="replace")
        self._began = {}

    def _say(self, kind, **fields):
        fields["kind"] = kind
        self._pipe.write(json.dumps(fields, default=str) + "\n")
        self._pipe.flush()

    def _result(self, status, result, ignored=False):
        values = result._result
        task = result._task
        hidden = bool(values.get("_ansible_no_log") or task.no_log)
        fields = {
            "host": result._host.get_name(),
            "task": task.get_name(),
            "action": task.action,
            "status": status,
            "ignored": ignored,
            "seconds": time.time() - self._began.get(task._uuid, time.time()),
        }
        if not hidden:
            fields["message"] = text(values.get("msg"))
            fields["reason"] = text(values.get("exception") or values.get("module_stderr") if status in ("failed", "unreachable") else None)
            fields["stdout"] = text(values.get("stdout"))
            fields["stderr"] = text(values.get("stderr"))
            if values.get("diff"):
                try:
                    fields["diff"] = text(self._get_diff(values["diff"]))
                except Exception:  # a module may give a diff of any form
                    fields["diff"] = text(values["diff"])
        self._say("result", **fields)

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

    def v2_runner_retry(self, result):
        self._result("retry", result)

    def v2_playbook_on_stats(self, stats):
        for host in sorted(stats.processed.keys()):
            self._say("summary", host=host, counts=stats.summarize(host))
