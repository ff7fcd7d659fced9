//! Every example, except one that needs a server, runs without a key and without input, ends, and
//! prints what it demonstrates.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use loopwright_patterns::{PiPattern, conformance};

#[allow(dead_code, reason = "the test needs only its pattern")]
#[path = "../../examples/custom_pattern.rs"]
mod custom_pattern;

/// The examples, and phrases that each one prints.
const EXAMPLES: [(&str, &[&str]); 7] = [
    ("hello", &["(Done, "]),
    (
        "custom_tool",
        &["a: Ok, 30 °C in Rome", "b: Error, no station in `Atlantis`", "3 requests for 4 calls"],
    ),
    (
        "custom_pattern",
        &["User: Revise it. A critic says: Which colour?", "Assistant: Grey, the sea goes on."],
    ),
    (
        "steering",
        &["User: Its history, please.", "(Interrupted)", "User: And how is it drunk?", "Done"],
    ),
    (
        "confirm",
        &[
            "AwaitingAction, 2 calls wait",
            "a: 20 € are on their way to Ann",
            "b: Denied by the user: that is too much",
        ],
    ),
    (
        "sub_agents",
        &[
            "AwaitingAction",
            "hotels: book {\"what\":\"a room\"}",
            "trains: Booked: the night train.",
            "Train and hotel are booked.",
            "sessions: trip, trip/m2.1, trip/m2.2",
        ],
    ),
    (
        "cassette",
        &[
            "recording\nthe tool runs\nTake an umbrella.\nreplaying\nTake an umbrella.\n",
            "-   You answer briefly.\n+   You answer at length.\n",
        ],
    ),
];

/// The example that needs Redis, which `tests/redis.rs` runs.
const RUN_BY_OTHER_TEST: &str = "custom_memory";

/// Cargo builds the examples together with the tests, into a folder beside them.
fn folder() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.ancestors().nth(2).unwrap().join("examples")
}

#[test]
fn every_example_runs_and_prints_what_it_demonstrates() {
    for (name, says) in EXAMPLES {
        let program = folder().join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
        let run = Command::new(&program).stdin(Stdio::null()).env_clear().output();
        let run = run.unwrap_or_else(|why| {
            panic!("{}: {why}; `cargo build --examples` makes it", program.display())
        });
        let out = String::from_utf8_lossy(&run.stdout);
        assert!(
            run.status.success(),
            "{name}: {}\n{out}\n{}",
            run.status,
            String::from_utf8_lossy(&run.stderr)
        );
        for phrase in says {
            assert!(out.contains(phrase), "{name} does not print {phrase:?}:\n{out}");
        }
    }
}

/// The list of examples is complete.
#[test]
fn every_example_is_run() {
    let files = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/examples")).unwrap();
    let mut found: Vec<String> = files
        .map(|file| file.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    let mut run: Vec<_> = EXAMPLES
        .iter()
        .map(|(name, _)| *name)
        .chain([RUN_BY_OTHER_TEST])
        .map(String::from)
        .collect();
    found.sort();
    run.sort();
    assert_eq!(found, run);
}

/// C149: the pattern of the example is correct.
#[tokio::test(start_paused = true)]
async fn the_custom_pattern_conforms() {
    let with_critic = conformance::scenarios()
        .into_iter()
        .map(|scenario| scenario.agent(|agent, model| agent.model_named("critic", model.clone())));
    let revise = || custom_pattern::Revise { rounds: 2, writer: PiPattern };
    let report = conformance::check(revise, with_critic).await;
    let report = report.unwrap_or_else(|violation| panic!("{violation}"));
    assert!(report.sessions > 1000, "{report:?}");
}
