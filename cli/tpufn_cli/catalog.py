"""The commands as data: what `tpufn --help` lists without importing any of them."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """One command: where its click object lives (`module:attribute` below `tpufn_cli.commands`) and its one line."""

    name: str
    target: str
    help: str


SECTIONS: tuple[tuple[str, tuple[Entry, ...]], ...] = (
    (
        "Start",
        (
            Entry("demo", "demo:demo", "Run a small training job in the sandbox, with a preemption."),
            Entry("init", "init:init", "Write a deployment.yaml and a job.yaml to start from."),
            Entry("run", "run:run", "Run a job file to its end, with an engine of its own."),
            Entry("up", "up:up", "Run the embedded engine in the foreground."),
            Entry("validate-fleet", "validate:validate_fleet", "Check a deployment file; calls no cloud."),
            Entry("validate-jobs", "validate:validate_jobs", "Check a job file and its bundles; calls no cloud."),
        ),
    ),
    (
        "Jobs",
        (
            Entry("submit", "submit:submit", "Submit a job file, or `-` for standard input."),
            Entry("jobs", "jobs:jobs", "List jobs, newest first."),
            Entry("job", "jobs:job", "Show one job: attempts, history, specification."),
            Entry("why", "why:why", "Say what a job waits for, or why it ended as it did."),
            Entry("watch", "watch:watch", "Follow what happens to jobs until they end."),
            Entry("logs", "logs:logs", "Show the output of a job's workers."),
            Entry("cancel", "cancel:cancel", "Cancel jobs."),
            Entry("set-priority", "change:set_priority", "Change a job's priority."),
            Entry("retry", "change:retry", "Submit a failed job again, with its checkpoints."),
        ),
    ),
    (
        "Capacity",
        (
            Entry("slots", "slots:slots", "List the fleet's slots and what they hold."),
            Entry("race", "slots:race", "Ask for several slots; keep the first that is granted."),
            Entry("status", "status:status", "Show the deployment at a glance."),
            Entry("interrupt", "change:interrupt", "Give a busy TPU up; its job retries."),
        ),
    ),
    (
        "Console",
        (
            Entry("ssh", "ssh:ssh", "Open a shell on a TPU, or run a command there."),
            Entry("tui", "tui:tui", "Watch and steer everything in a terminal UI."),
            Entry("tmux", "tmux:tmux", "Keep a tmux window for each usable TPU."),
            Entry("mcp", "mcp:mcp", "Serve an assistant over MCP, on standard input and output."),
            Entry("config", "config:config", "Show your own configuration, or start one."),
        ),
    ),
    (
        "Deployment",
        (
            Entry("simulate", "simulate:simulate", "Play a workload through a deployment, on simulated capacity."),
            Entry("fleet", "fleet:fleet", "Declare the fleet."),
            Entry("deploy", "deploy:deploy", "Make or change a deployment in its project."),
            Entry("destroy", "deploy:destroy", "Take a deployment away: its TPUs first, then all else."),
            Entry("doctor", "doctor:doctor", "Check what a deployment needs, and say what mends it."),
            Entry("tick", "ticks:tick", "Compare what is with what should be, now."),
            Entry("pause", "ticks:pause", "Stop the ticks for maintenance."),
            Entry("resume", "ticks:resume", "Start the ticks again."),
            Entry("package", "package:package", "Write the functions' archives and Terraform's variables."),
            Entry("dead-letters", "dead_letters:dead_letters", "Messages that could not be delivered or read."),
        ),
    ),
    (
        "Other",
        (
            Entry("schema", "schema:schema", "Print a JSON Schema."),
            Entry("completion", "completion:completion", "Print the shell code that completes commands."),
        ),
    ),
)

COMMANDS = {entry.name: entry for _, entries in SECTIONS for entry in entries}

EXIT_CODES = (
    ("0", "succeeded"),
    ("1", "the job failed"),
    ("2", "wrong input"),
    ("3", "not found"),
    ("4", "conflict"),
    ("5", "the cloud is unreachable or refuses"),
    ("74", "the output, or a file of ours on this machine, cannot be written or read"),
    ("128+N", "ended early by signal N: 130 Ctrl-C, 143 SIGTERM, 129 a closed terminal, 141 nobody reads"),
)
