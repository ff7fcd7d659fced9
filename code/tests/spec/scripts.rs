//! Scripts: their calls, their output, their errors.

use loopwright_core::event::Decision;
use loopwright_core::session::Profile;
use loopwright_core::testing::{Harness, Script, TestTool};
use loopwright_core::tool::Effect;
use loopwright_core::{BehaviorPattern, StepContext, StepEnd, StepError, async_trait};
use serde_json::json;

use crate::kit::{batches, code_mode, get_order, output, script};

const TOTALS: &str = r#"
import asyncio, json
from collections import defaultdict
orders = [json.loads(o) for o in await asyncio.gather(*[get_order(number=n) for n in range(6)])]
totals = defaultdict(int)
for order in orders:
    totals[order["customer"]] += order["total"]
print("six orders")
dict(totals)
"#;

/// C546: A script calls tools; its output is a message, and the results of its calls stay out of
/// the conversation. Calls that it awaits together are one batch.
#[tokio::test]
async fn only_the_output_of_a_script_enters_the_conversation() {
    let replies = [script(TOTALS), Script::text("c2 has the most.")];
    let harness = Harness::new(code_mode(), replies, |agent| agent.tool(get_order())).await;
    let outcome = harness.handle.prompt("Who has the most?").await.unwrap();
    assert_eq!(outcome.text, "c2 has the most.");
    let requests = harness.model.requests();
    assert_eq!(requests.len(), 2);
    let texts: Vec<String> = requests[1].messages.iter().map(|message| message.text()).collect();
    let output = "Output of the script:\nsix orders\n{'c0': 30, 'c1': 50, 'c2': 70}";
    assert_eq!(texts.len(), 4, "{texts:?}");
    assert_eq!(texts[3], output);
    let calls: Vec<_> = (0..6).map(|n| ("get_order".to_owned(), json!({ "number": n }))).collect();
    assert_eq!(batches(&harness.memory.entries()), [calls]);
    harness.check().await;
}

/// C546: The model gets the tools as functions in the prompt, and calls only `run_script`.
#[tokio::test]
async fn tools_are_functions_in_the_prompt() {
    let replies = [script("1"), Script::text("Done.")];
    let options = |agent: loopwright_core::AgentBuilder| {
        agent.system("You sell.").tool(get_order()).tool(TestTool::new("ask"))
    };
    let harness = Harness::new(code_mode().direct(["ask"]), replies, options).await;
    harness.handle.prompt("Go.").await.unwrap();
    let requests = harness.model.requests();
    let offered: Vec<&str> = requests[0].tools.iter().map(|spec| &*spec.name).collect();
    assert_eq!(offered, ["ask", "run_script"]);
    let system = &requests[0].system;
    assert!(system.starts_with("You sell."), "{system}");
    let stub = "async def get_order(*, number: int) -> str:\n    \"\"\"Returns an order as \
        JSON.\n    number: The number of the order.\"\"\"";
    assert!(system.contains(stub), "{system}");
    assert!(!system.contains("async def ask"), "{system}");
    assert_eq!(requests[0].system, requests[1].system);
}

/// A role that offers only some tools.
struct Role<P>(P);

#[async_trait]
impl<P: BehaviorPattern> BehaviorPattern for Role<P> {
    fn inner(&self) -> Option<&dyn BehaviorPattern> {
        Some(&self.0)
    }

    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        let profile = Profile::new().tools(["run_script", "look"]);
        self.0.next_step(&mut step.with_profile(profile)).await
    }
}

/// C546: A script can call only tools that the role of the agent offers, and no direct ones.
#[tokio::test]
async fn a_script_cannot_call_what_is_not_offered() {
    for (pattern, code) in [
        (Role(code_mode()), "await get_order(number=1)"),
        (Role(code_mode().direct(["look"])), "await look()"),
        (Role(code_mode()), "await run_script(code='1')"),
    ] {
        let replies = [script(code), Script::text("Done.")];
        let look = TestTool::new("look");
        let options =
            |agent: loopwright_core::AgentBuilder| agent.tool(get_order()).tool(look.clone());
        let harness = Harness::new(pattern, replies, options).await;
        harness.handle.prompt("Go.").await.unwrap();
        let last = harness.model.requests()[1].messages.last().unwrap().text();
        assert!(last.contains("NameError"), "{code}: {last}");
        assert!(batches(&harness.memory.entries()).is_empty(), "{code}");
    }
}

/// C546: The calls are validated and may be denied. A script can catch both, and the rest runs.
#[tokio::test]
async fn failed_and_denied_calls_are_exceptions() {
    let code = r#"
for call in [get_order(number=13), get_order(number="many"), pay()]:
    try:
        await call
    except PermissionError as error:
        print("denied:", error)
    except RuntimeError as error:
        print("failed:", error)
"#;
    let replies = [script(code), Script::text("Done.")];
    let pay = TestTool::new("pay").effect(Effect::Idempotent);
    let options = |agent: loopwright_core::AgentBuilder| agent.tool(get_order()).tool(pay.clone());
    let harness = Harness::new(code_mode(), replies, options).await;
    harness.handle.prompt("Go.").await.unwrap();
    harness.resolve(0, Decision::Deny("not today".into())).await.unwrap();
    harness.handle.wait_for_idle().await;
    assert_eq!(pay.ran(), 0);
    let output = harness.model.requests()[1].messages.last().unwrap().text();
    let expected = "Output of the script:\nfailed: There is no order 13.\nfailed: The arguments do \
        not fit the schema:\n- /number: \"many\" is not of type \"integer\"\ndenied: Denied by the \
        user: not today";
    assert_eq!(output, expected);
    harness.check().await;
}

/// C546: The model sees the error of a script with its line, and what had been done before.
#[tokio::test]
async fn errors_of_a_script_go_to_the_model() {
    for (code, texts) in [
        ("x = = 1", vec!["SyntaxError", "line 1"]),
        ("print('before')\nx = {}\nx['key']", vec!["KeyError", "line 3", "\nbefore"]),
        ("x = await get_order(number=1)\nx.y", vec!["AttributeError", "get_order × 1"]),
        ("x = await get_order(number=13)", vec!["RuntimeError", "get_order × 1", "no order 13"]),
        ("get_order(number=1)\nNone", vec!["not made", "get_order"]),
        ("await get_order(1)", vec!["TypeError", "keyword arguments only"]),
        ("await get_order(number=float('nan'))", vec!["TypeError", "NaN"]),
        ("await get_order(number={1: 2})", vec!["TypeError", "must be a str, not int"]),
        ("open('/etc/passwd').read()", vec!["PermissionError", "no files"]),
        ("import datetime\ndatetime.datetime.now()", vec!["PermissionError", "no clock"]),
        ("import os\nos.environ['HOME']", vec!["Error"]),
        ("match 1:\n  case 1: pass", vec!["match"]),
        ("await run_script(code='1')", vec!["NameError"]),
    ] {
        let output = output(code).await;
        assert!(output.starts_with("The script failed"), "{code}: {output}");
        for text in texts {
            assert!(output.contains(text), "{code}: {output}");
        }
    }
    assert_eq!(output("None").await, "Output of the script: none.");
    assert_eq!(output("'text'").await, "Output of the script:\ntext");
}

/// C546: A reply can have several scripts, which run in their order.
#[tokio::test]
async fn several_scripts_of_a_reply_run_in_their_order() {
    let run = |id, code| (id, "run_script", json!({ "code": code }));
    let replies = [
        Script::calls([
            run("1", "await get_order(number=1)"),
            run("2", "x ="),
            run("3", "await get_order(number=2)"),
        ]),
        Script::text("Done."),
    ];
    let harness = Harness::new(code_mode(), replies, |agent| agent.tool(get_order())).await;
    harness.handle.prompt("Go.").await.unwrap();
    let request = harness.model.requests()[1].clone();
    let texts: Vec<String> = request.messages.iter().map(|message| message.text()).collect();
    let starts: Vec<&str> = texts[5..].iter().map(|text| text.lines().next().unwrap()).collect();
    let ok = "Output of the script:";
    assert_eq!(starts, [ok, "The script failed:", ok], "{texts:?}");
    harness.check().await;
}

/// C546: Tasks that run at the same time make their calls in the same order in each process.
#[tokio::test]
async fn the_order_of_calls_is_the_same_each_time() {
    let code = r#"
import asyncio
async def two(n):
    await get_order(number=n)
    await get_order(number=n + 100)
await asyncio.gather(*[two(n) for n in range(8)])
"#;
    let mut orders = Vec::new();
    for _ in 0..8 {
        let replies = [script(code), Script::text("Done.")];
        let harness = Harness::new(code_mode(), replies, |agent| agent.tool(get_order())).await;
        harness.handle.prompt("Go.").await.unwrap();
        orders.push(batches(&harness.memory.entries()));
    }
    assert_eq!(orders[0].iter().map(Vec::len).collect::<Vec<_>>(), [8, 8]);
    assert!(orders.iter().all(|order| *order == orders[0]), "{orders:?}");
}

/// C546: A pattern whose program cannot run scripts says so.
#[tokio::test]
async fn a_wrong_program_ends_the_run() {
    use loopwright_code::{CodeMode, Interpreter};
    for (program, why) in [("/nowhere/script", "cannot be started"), ("true", "does not run")] {
        let replies = [script("1"), Script::text("Done.")];
        let pattern = CodeMode::new(Interpreter::program(program));
        let harness = Harness::new(pattern, replies, |agent| agent).await;
        let outcome = harness.handle.prompt("Go.").await.unwrap();
        assert!(outcome.error.as_ref().unwrap().contains(why), "{outcome:?}");
    }
}

/// C546: A variable with the name of a built-in function is a variable, also in a comprehension.
#[tokio::test]
async fn variables_may_have_the_names_of_functions() {
    let code = "a = [id for id in range(3)]\nb = [n for n, type in [(1, 2)] if type == 2]\n\
        c = sum(max for max in [1, 2])\n(a, b, c, len(a), max(a), type(1) is int, sorted([2, 1]))";
    let expected = "Output of the script:\n([0, 1, 2], [1], 3, 3, 2, True, [1, 2])";
    assert_eq!(output(code).await, expected);
}

/// C546: A script can await its calls in any order, and calls that it never awaits are made with
/// those that it awaits.
#[tokio::test]
async fn calls_can_be_awaited_later() {
    let code = "a = get_order(number=1)\nb = get_order(number=2)\nc = get_order(number=13)\n\
        y = await b\nx = await a\ntry: await c\nexcept RuntimeError as error: print(error)\n\
        x == y";
    assert_eq!(output(code).await, "Output of the script:\nThere is no order 13.\nFalse");
    let code = "import asyncio\nasync def f(): return await get_order(number=1)\n\
        a, b = await asyncio.gather(f(), f())\nc = f()\nawait get_order(number=13)";
    assert!(output(code).await.contains("There is no order 13."));
}

/// C546: Tools whose names mean something else in Python have other names in scripts.
#[tokio::test]
async fn tools_may_have_the_names_of_python_functions() {
    let names = ["list", "input", "print", "filter", "open", "json", "ValueError", "import", "x-y"];
    let functions =
        ["list_", "input", "print_", "filter_", "open_", "json_", "ValueError_", "import_", "x_y"];
    let calls = functions.map(|name| format!("print(await {name}())\n")).concat();
    let code = format!("import json\n{calls}json.dumps(list(filter(None, [0, 1])))");
    let replies = [script(&code), Script::text("Done.")];
    let options = |agent: loopwright_core::AgentBuilder| {
        names.iter().fold(agent, |agent, name| agent.tool(TestTool::new(name).answers(*name)))
    };
    let harness = Harness::new(code_mode(), replies, options).await;
    harness.handle.prompt("Go.").await.unwrap();
    let output = harness.model.requests()[1].messages.last().unwrap().text();
    assert_eq!(output, format!("Output of the script:\n{}\n[1]", names.join("\n")));
    harness.check().await;
}
