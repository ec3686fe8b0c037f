"""Writes the synthetic traces of `make replay`: conversations of four kinds of agents, the same ones each time.

Usage: python3 make.py DIRECTORY. docs/context.md describes the format.
"""

import datetime
import json
import pathlib
import random
import sys

START = datetime.datetime(2026, 1, 5, 9, 0, 0)
WORDS = (
    "the agent keeps its position small and explains each step before it acts on a venue with enough depth and a fee that it knows while the "
    "owner sees what was done why it was done and what it cost and a limit that is reached is a reason to stop and to say so"
).split()


class Trace:
    """One file: definitions of bodies, and requests in the order of their times."""

    def __init__(self):
        self.lines = []

    def define(self, name, body):
        self.lines.append({"define": name, "body": body})

    def ask(self, at, path, use, messages, **more):
        line = {"at": at.strftime("%Y-%m-%dT%H:%M:%SZ"), "path": path, "use": use, "messages": messages}
        self.lines.append(line | more)

    def write(self, path):
        path.write_text("".join(json.dumps(line, ensure_ascii=False, sort_keys=True) + "\n" for line in self.lines))


def prose(rng, words):
    """Plain text of about so many words."""
    return " ".join(rng.choice(WORDS) for _ in range(words)).capitalize() + "."


def schema(rng, count):
    """A JSON schema of an object with so many members."""
    names = rng.sample(["token", "amount", "chain", "pool", "limit", "address", "since", "until", "path", "pattern", "text", "mode", "account", "order"], count)
    return {
        "type": "object",
        "properties": {name: {"type": "string", "description": prose(rng, 8)} for name in names},
        "required": names[:1],
    }


def code(rng, name, lines):
    """A source file as a coding agent's tool shows it."""
    out = []
    for i in range(lines):
        verb, noun = rng.choice(["load", "parse", "merge", "check", "write"]), rng.choice(["order", "config", "token", "batch", "event"])
        out.append(f"{i + 1:5d}\t{'    ' * rng.randint(0, 3)}{verb}_{noun}_{rng.randint(0, 99)}({name}, {noun}s[{i}])  # {prose(rng, 5)}")
    return "\n".join(out)


def coding(rng):
    """A coding client of Anthropic's format, which marks its own prompt: 20 tools, 60 requests in 50 minutes."""
    t = Trace()
    names = "Read Write Edit Bash Grep Glob LS WebFetch WebSearch Task TodoWrite NotebookEdit MultiEdit KillShell Status Diff Commit Test Lint Format".split()
    tools = [{"name": n, "description": prose(rng, 90), "input_schema": schema(rng, 3)} for n in names]
    system = [
        {"type": "text", "text": "You are a coding assistant. " + prose(rng, 1800), "cache_control": {"type": "ephemeral"}},
        {"type": "text", "text": "Working directory: /home/dev/shop\nPlatform: linux\nToday's date: 2026-01-05\n" + prose(rng, 120), "cache_control": {"type": "ephemeral"}},
    ]
    t.define("coding", {"model": "claude-sonnet-4-5", "max_tokens": 8000, "temperature": 1, "system": system, "tools": tools})
    at, files, call = START, ["cart.py", "order.py", "tax.py", "api.py", "models.py", "mail.py", "user.py", "stock.py"], 0
    texts = {name: code(rng, name[:-3], rng.randint(60, 160)) for name in files}
    new = [{"role": "user", "content": "Fix the rounding of taxes in the cart. " + prose(rng, 40)}]
    for i in range(60):
        name = rng.choice(files[: 3 + i // 12])
        call += 1
        done = i % 12 == 11
        text = prose(rng, 60 if done else 25)
        tool, arguments, result = step(rng, name, texts)
        answer = {"text": text, "tokens": 380 if done else 150}
        content = [{"type": "text", "text": text}]
        if not done:
            answer |= {"tool": tool, "arguments": arguments}
            content.append({"type": "tool_use", "id": f"toolu_{call}", "name": tool, "input": arguments})
        t.ask(at, "/v1/messages", "coding", new, conversation="fix", mark=True, answer=answer)
        at += datetime.timedelta(seconds=rng.choice([9, 14, 25, 40, 95]) if i % 20 else 330)
        if done:
            reply = [{"type": "text", "text": "Now do the same for " + name + ". " + prose(rng, 20)}]
        else:
            reply = [{"type": "tool_result", "tool_use_id": f"toolu_{call}", "content": result}]
        new = [{"role": "assistant", "content": content}, {"role": "user", "content": reply}]
    return t


def step(rng, name, texts):
    """One call of a coding agent: its tool, its arguments, its result. Edits change what the next reading of the file shows."""
    kind = rng.random()
    if kind < 0.45:
        return "Read", {"path": name}, texts[name]
    if kind < 0.7:
        lines = texts[name].split("\n")
        at = rng.randrange(len(lines))
        new = f"{at + 1:5d}\t" + prose(rng, 8)
        arguments = {"path": name, "old": lines[at][6:], "new": new[6:]}
        lines[at] = new
        texts[name] = "\n".join(lines)
        return "Edit", arguments, f"The file {name} has been changed."
    if kind < 0.9:
        failed = "".join(f"FAILED test_{rng.randint(1, 99)} - {prose(rng, 12)}\n" for _ in range(rng.randint(0, 9)))
        return "Bash", {"command": "pytest -q"}, failed + f"{rng.randint(90, 140)} passed in {rng.random() * 9:.2f}s"
    found = "".join(f"{rng.choice(list(texts))}:{rng.randint(1, 160)}: {prose(rng, 6)}\n" for _ in range(rng.randint(3, 30)))
    return "Grep", {"pattern": rng.choice(WORDS)}, found


TICKS = {
    "market_analysis": ["get_token_price", "get_ohlc", "get_pool_info"], "lp_management": ["add_liquidity", "remove_liquidity", "collect_fees"],
    "vault_rebalance": ["vault_deposit", "vault_withdraw", "rebalance_vault"], "risk_check": ["check_health_factor", "get_liquidation_risk", "get_exposure"],
    "portfolio_review": ["portfolio_summary", "get_balance", "get_pnl_history"], "trade_execution": ["quote_swap", "swap_tokens", "simulate_transaction"],
    "strategy_update": ["update_strategy", "read_playbook", "run_backtest"],
}


def golem(rng):
    """An agent's day: 100 ticks of all kinds in ten bursts, 32 tools, a static persona, and the state of the market in each system prompt."""
    t = Trace()
    names = sum(TICKS.values(), []) + "send_transaction estimate_gas approve_token search_news read_memory write_memory post_message read_calendar list_pools bridge_tokens stake_tokens".split()
    tools = [{"type": "function", "function": {"name": n, "description": n.replace("_", " ") + ": " + prose(rng, 55), "parameters": schema(rng, 4)}} for n in names]
    persona = "You are a trading agent with one owner. " + prose(rng, 1500)
    parts = [("heartbeat_t1", "claude-haiku-4-5", 0, 62), ("heartbeat_t2", "claude-sonnet-4-5", 0.3, 14), ("risk", "claude-sonnet-4-5", 0.2, 10),
             ("curator", "claude-haiku-4-5", 0.3, 6), ("daimon", "claude-haiku-4-5", 0.7, 5), ("dream_rem", "claude-sonnet-4-5", 0.9, 3)]
    for part, model, temperature, _ in parts:
        t.define(part, {"model": model, "max_tokens": 700, "temperature": temperature, "tools": tools})
    order = [p for p in parts for _ in range(p[3])]
    rng.shuffle(order)
    kinds = list(TICKS)
    seen = "calm"
    for i, (part, _, _, _) in enumerate(order):
        burst, step = divmod(i, 10)
        at = START + datetime.timedelta(minutes=140 * burst, seconds=50 * step)
        if rng.random() < 0.6:
            seen = f"ETH {2900 + rng.randint(-40, 40)}, gas {rng.randint(4, 40)} gwei, pool depth {rng.randint(3, 9)}.{rng.randint(0, 9)}M"
        system = [{"type": "text", "text": persona}, {"type": "text", "text": f"State of the market: {seen}.", "bardo": "volatile"}]
        kind = kinds[rng.randrange(3) if part == "heartbeat_t1" else rng.randrange(7)]
        messages = [{"role": "system", "content": system}, {"role": "user", "content": f"Tick: {kind.replace('_', ' ')}. Observe, decide, and say why in two sentences."}]
        answer = {"text": prose(rng, 45), "tokens": 90 if part == "heartbeat_t1" else 320}
        headers = {"X-Bardo-Golem-Id": "golem-7", "X-Bardo-Subsystem": part, "X-Bardo-Tick": str(i), "X-Bardo-Tick-Type": kind, "X-Bardo-Vitality": "0.8"}
        t.ask(at, "/v1/chat/completions", part, messages, headers=headers, answer=answer)
    return t


ASKED = [
    ["How do I reset my password?", "I forgot my password, how can I reset it?", "What is the way to reset a password?"],
    ["When does my order arrive?", "How long does the delivery take?", "What is the delivery time?"],
    ["Can I return an item that I opened?", "Is it possible to send back an opened item?", "May opened items be returned?"],
    ["Do you ship to Norway?", "Is shipping to Norway possible?", "Can you deliver to Norway?"],
]


def support(rng):
    """A support chat of OpenAI's format: 20 conversations of four turns, six tools; customers ask the same in other words."""
    t = Trace()
    tools = [{"type": "function", "function": {"name": n, "description": prose(rng, 25), "parameters": schema(rng, 2)}}
             for n in ["find_order", "refund_order", "change_address", "open_ticket", "find_article", "hand_over"]]
    t.define("support", {"model": "gpt-5-mini", "temperature": 0.2, "max_tokens": 500, "tools": tools})
    system = {"role": "system", "content": "You answer customers of a shop. " + prose(rng, 1100)}
    for c in range(20):
        at = START + datetime.timedelta(seconds=70 * c)
        new = [system]
        for turn in range(4):
            question = rng.choice(rng.choice(ASKED)) if turn == 0 else prose(rng, 18)
            text = prose(rng, 60)
            t.ask(at, "/v1/chat/completions", "support", new + [{"role": "user", "content": question}], conversation=f"chat {c}", answer={"text": text, "tokens": 85})
            new = [{"role": "assistant", "content": text}]
            at += datetime.timedelta(seconds=rng.choice([20, 35, 60]))
    return t


def tools150(rng):
    """An agent with 150 tools of many servers, in Anthropic's format, without marks: 8 conversations of six requests."""
    t = Trace()
    subjects = ["calendar", "mail", "file", "ticket", "invoice", "contact", "repo", "build", "server", "database", "chart", "report", "payment", "order", "task"]
    verbs = ["list", "get", "create", "update", "delete", "search", "share", "move", "export", "archive"]
    tools = [{"name": f"{v}_{s}", "description": f"{v.capitalize()} a {s}. " + prose(rng, 50), "input_schema": schema(rng, 5)} for s in subjects for v in verbs]
    t.define("agent", {"model": "claude-sonnet-4-5", "max_tokens": 1000, "system": "You work with the tools of an office. " + prose(rng, 300), "tools": tools})
    call = 0
    for c in range(8):
        at = START + datetime.timedelta(minutes=9 * c)
        s, v = rng.choice(subjects), rng.choice(verbs)
        new = [{"role": "user", "content": f"Please {v} the {s} of last week. " + prose(rng, 15)}]
        for i in range(6):
            call += 1
            last = i == 5
            text = prose(rng, 20)
            answer = {"text": text, "tokens": 120}
            content = [{"type": "text", "text": text}]
            if not last:
                answer |= {"tool": f"{v}_{s}", "arguments": {"text": "last week"}}
                content.append({"type": "tool_use", "id": f"toolu_{call}", "name": f"{v}_{s}", "input": {"text": "last week"}})
            t.ask(at, "/v1/messages", "agent", new, conversation=f"talk {c}", answer=answer)
            rows = [{"id": rng.randint(1, 999), "title": prose(rng, 6), "state": rng.choice(["open", "done"])} for _ in range(12)]
            new = [{"role": "assistant", "content": content}, {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": f"toolu_{call}", "content": json.dumps(rows, indent=2)}]}]
            at += datetime.timedelta(seconds=rng.choice([6, 12, 30]))
    return t


def main():
    out = pathlib.Path(sys.argv[1])
    for name, make in {"coding": coding, "golem-day": golem, "support": support, "tools-150": tools150}.items():
        make(random.Random(name)).write(out / f"{name}.jsonl")


if __name__ == "__main__":
    main()
