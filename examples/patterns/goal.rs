//! `Goal` around `PiPattern`: the agent works until the tests pass. If they do not, it says how far
//! it came.
//!
//! The tests are a shell script in the agent's directory. The pattern runs it, confined, after each
//! answer, and sends the agent back with what it printed. In a project in Rust, the command is
//! `cargo test`.

use std::error::Error;
use std::fs;

use loopwright::GenericAgent;
use loopwright::event::RunOutcome;
use loopwright::patterns::{Goal, GoalEnd, PiPattern};
use loopwright::testing::{Script, ScriptedModel};
use loopwright::tools::{Commands, Workspace, coding_tools_with};
use serde_json::json;

/// The tests. `add.sh` has to print the sum of two numbers.
const TESTS: &str = r#"for case in "1 2 3" "20 22 42"; do
    set -- $case
    sum=$(sh add.sh "$1" "$2")
    [ "$sum" = "$3" ] || { echo "FAILED: $1 + $2 is $3, not $sum"; exit 1; }
done
echo "2 tests passed"
"#;

/// Returns a reply that writes `add.sh`.
fn write(id: &str, content: &str) -> Script {
    Script::calls([(id, "write_file", json!({ "path": "add.sh", "content": content }))])
}

/// Lets an agent with these replies work until the tests pass, in at most `rounds` rounds.
async fn work(
    rounds: u32,
    replies: impl IntoIterator<Item = Script>,
) -> Result<RunOutcome, Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    fs::write(folder.path().join("test.sh"), TESTS)?;
    let tools = coding_tools_with(Workspace::open(folder.path())?, Commands::new());

    let pattern = Goal::command("sh test.sh", PiPattern).rounds(rounds);
    let agent = GenericAgent::builder(ScriptedModel::new(replies), pattern)
        .tools(tools)
        .approve_all()
        .build()?;
    let handle = agent.session().await?;
    let mut events = handle.subscribe();
    let outcome = handle.prompt("Write `add.sh`, which adds two numbers.").await?;

    for message in handle.state().await?.messages.iter() {
        println!("{:?}: {}", message.role(), message.text());
    }
    while let Some(event) = events.try_next() {
        if let Some(end) = GoalEnd::of(&event.event) {
            println!("reached: {}, rounds: {}", end.reached, end.rounds);
        }
    }
    Ok(outcome)
}

pub(crate) async fn run() -> Result<(), Box<dyn Error>> {
    let [minus, plus] = ["echo $(($1 - $2))\n", "echo $(($1 + $2))\n"];
    let corrected = Script::text("It subtracted. Now it adds.");
    let outcome = work(5, [write("1", minus), Script::text("Done."), write("2", plus), corrected]);
    assert!(outcome.await?.text.ends_with("Now it adds."));

    let report = Script::text("It still subtracts. I would try a plus sign next.");
    let outcome = work(1, [write("1", minus), Script::text("Done."), report]);
    assert!(outcome.await?.text.starts_with("It still subtracts."));
    Ok(())
}
