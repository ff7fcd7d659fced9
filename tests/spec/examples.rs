//! Every example runs without a key and without input, ends, and prints what it demonstrates. The
//! only exception needs a server.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use loopwright_core::BehaviorPattern;
use loopwright_core::event::{Decision, ExternalAction, Provided};
use loopwright_core::testing::{Script, default_decision};
use loopwright_patterns::PiPattern;
use loopwright_patterns::conformance::{self, Scenario};

#[allow(dead_code, reason = "the test needs only its pattern")]
#[path = "../../examples/custom_pattern.rs"]
mod custom_pattern;

#[allow(dead_code, reason = "the test needs only its patterns")]
#[path = "../../examples/patterns/graph.rs"]
mod graph;

/// The examples, and phrases that each one prints.
const EXAMPLES: [(&str, &[&str]); 42] = [
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
        "sleep",
        &[
            "Sleeping\nYes, I am only waiting.\nnothing to do before 2026-12-0",
            "T09:00:00\nUser: Report tomorrow at nine.\n",
            "User: It is nine. Write the report now.\nAssistant: The report: all is well.\n",
        ],
    ),
    (
        "wait_for_event",
        &[
            "Sleeping\nNot yet.\n",
            "User: [paid: {\"euros\":20}]\nAssistant: Thank you. The book is on its way.\n",
        ],
    ),
    ("todo", &["1 of 2 done\n[x] Read the log\n[>] Fix the leak\n", "to do: true\n"]),
    (
        "debate",
        &[
            "<pro> They are loud.\n<contra> So are trains.\n<pro> A train is, for a minute.\n",
            "<contra> A car is, for a second.\nPro: the minute has passed.\n# Ban cars?\n",
            "## pro (m2, test/scripted)\n\nThey are loud.\n",
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
    (
        "replay",
        &[
            "the tool pays 20 € back\ntoday's agent: Ok(())\n",
            "with a check: request 3 is not in the log",
            "with another prompt: request 1: the system prompt differs: it was `Be kind.`",
        ],
    ),
    (
        "patterns",
        &[
            "User: On Sunday, please.\nUser: And what does a ticket cost?",
            "User: On Sunday, please.\nAssistant: On Sunday at 22:10.",
            "tool choices: [Tool(\"search_manual\"), Auto]",
            "User: Observation: heavy rain",
            "User: Now do this step: Check the train.",
            "Assistant: film.iso is deleted.",
            "n1[[\"read<br/>branches, at most 4 at once\"]]",
            "1 to 16 months. Notes on 16 of 20 17 requests, $0.102",
            "leave.md#transfer: Five days of holiday can be moved to the next year.",
            "The answer is not good enough yet: It does not say how to upgrade.",
            "Assistant: 5 cents",
            "the vote: spam",
            "large: You know the invoices.",
            "ToolResult: technician",
            "hotels needs an approval: book {\"room\":\"Room 7\"}",
            "Thunder or Pebble? others\nAnchor or Harbour? these",
            "For how many people? two",
            "User: The goal is not reached yet. Go on.\n\nExit code 1.\nFAILED: 1 + 2 is 3",
            "2 tests passed\n\nreached: true, rounds: 2\n",
            "I would try a plus sign next.\nreached: false, rounds: 1\n",
            "Invoice { number: \"R-17\", cents: 4990, due: \"2026-12-01\" }",
        ],
    ),
    ("ask", &["offline", "not a language model"]),
    (
        "ask_user",
        &["AwaitingAction", "is not one of the options", "A table on the terrace is booked."],
    ),
    ("axum_app", &["event: agent_start\n", "event: agent_end\n", "\"name\":\"helper\""]),
    (
        "bot",
        &[
            "#dev the bot is typing",
            "#dev 👀\n#dev ⏳\n",
            "#dev bot: I answer “ann: for ARM” (4 messages so far)",
            "#dev bot: I answer “bob: what's for lunch?” (6 messages so far)",
            "#random bot: I answer “bob: hello” (1 messages so far)",
        ],
    ),
    (
        "coding_tools",
        &["-Hello, wrold!\n+Hello, world!", "x: Error\ne: Ok\n", "corrected.\nHello, world!\n"],
    ),
    (
        "compaction",
        &["7 messages became a summary", "16 messages, the last request 5", "summary: true"],
    ),
    (
        "desktop",
        &["| delete {\"path\":\"old.txt\"} [Allow] [Deny]", "| Assistant: The file is deleted."],
    ),
    (
        "dynamic_tools",
        &["offered: clock, plugin_calendar\noffered: clock, plugin_calendar, plugin_mail\n"],
    ),
    ("export_import", &["8 lines", "## Assistant (m2, test/scripted)", "the copy has 4 messages"]),
    ("extract", &["Train { destination: \"Rome\", hour: 22, class: "]),
    (
        "fallback_model",
        &[
            "attempt 2 of 2: too many users\nsecond/small replied\nfirst/large replied",
            "got 3 requests",
        ],
    ),
    (
        "follow_ups",
        &["2 follow-ups wait", "It is released.\nUser: Then tell everybody.", "Done, one run"],
    ),
    ("hash_map_store", &["The store passes the conformance suite.", "Hello: 7 entries in its log"]),
    ("hooks", &["agent: Your PIN is ****.\nuser: Name your source.\nagent: It is ****."]),
    ("http_server", &["200 OK", "Nine sheep.", "0 sessions are stored", "The server has ended."]),
    ("interrupt", &["build: Aborted\nthe run: Aborted\nI have stopped the build.\n"]),
    ("json_events", &["{\"seq\":1,\"session_id\":\"planets\"", "\"delta\":\"Nine.\"}"]),
    (
        "limits",
        &[
            "Some(Run(Turns)): 3 requests",
            "Some(Run(Tokens)): 3 requests",
            "Some(Run(Cost)): 10 requests, 15000 tokens",
            "Done Some(Run(Turns)): 3 requests",
            "Limit Some(RepeatedCalls): 5 requests",
            "Done Some(RepeatedCalls): 6 requests",
            "I have searched one archive of two.",
        ],
    ),
    (
        "long_term_memory",
        &["of ann has the fact: true", "of bob has the fact: false", "fact 1: Ann's cat"],
    ),
    ("own_model", &["IS ANYBODY THERE? (6 tokens)"]),
    (
        "resume",
        &["stored: \"I am Ann.\", 7 entries", "You are Ann.", "in the request: User I am Ann."],
    ),
    ("several_models", &["local/small: It is 14:00.", "cloud/large: Suppose"]),
    (
        "stream",
        &["[weather {\"city\":\"Rome\"} …]", "[weather Ok: Sunny in Rome.]", "|says: |Sunny "],
    ),
    ("structured_output", &["Invoice { number: \"R-17\", cents: 4000 }", "sent back: The answer"]),
    (
        "test_your_agent",
        &["needs an approval: passed", "crashes, one after each append", "nothing twice: passed"],
    ),
    (
        "tool_macro",
        &[
            "big needs an approval",
            "rate: Ok, 1.25\nsmall: Ok, 20 € for Ann\n",
            "big: Error, there are only 280 €\nbalance: Ok, 280\n",
        ],
    ),
    (
        "tool_progress",
        &["a: 2 of 3, file 2", "a: Ok, 3 files", "b: Error, It was given up after 100ms"],
    ),
    ("vector_recall", &["0.39 travel.md", "The office books it [travel.md]."]),
    (
        "webhook_approval",
        &[
            "the desk is asked: refund {\"euros\":500}",
            "accepts the notice: 202 Accepted",
            "ann: approve_with\n50 € are refunded\nann changed arguments of this call",
            "{\"euros\":50}\nYou get 50 € back.",
        ],
    ),
];

/// The example that needs Redis, which `tests/redis.rs` runs.
const RUN_BY_OTHER_TEST: &str = "custom_memory";

/// The examples that are packages, with tests of their own.
const PACKAGES: [&str; 3] = ["genai_model", "payments", "your_app"];

/// Returns the folder of the examples, which Cargo builds together with the tests.
fn folder() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.ancestors().nth(2).unwrap().join("examples")
}

fn run(name: &str, arguments: &[&str]) -> Output {
    let program = folder().join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    let run = Command::new(&program).args(arguments).stdin(Stdio::null()).env_clear().output();
    run.unwrap_or_else(|why| {
        panic!("{}: {why}; `cargo build --examples` makes it", program.display())
    })
}

/// Returns the names of the files in a directory of the repository, without their extensions.
fn names(directory: &str) -> BTreeSet<String> {
    let files = Path::new(env!("CARGO_MANIFEST_DIR")).join(directory).read_dir().unwrap();
    files.map(|file| file.unwrap().path().file_stem().unwrap().to_str().unwrap().into()).collect()
}

/// C535: Each example runs offline and prints its subject. Among them, an agent works until tests
/// pass that really run, or says how far it came (`patterns -- goal`); another one reports tomorrow
/// at nine, in a second process that opens the first one's store (`sleep`).
#[test]
fn every_example_runs_and_prints_what_it_demonstrates() {
    for (name, says) in EXAMPLES {
        let run = run(name, &[]);
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
    let run = EXAMPLES.iter().map(|(name, _)| *name).chain([RUN_BY_OTHER_TEST]).chain(PACKAGES);
    let mut files = names("examples");
    assert!(files.remove("README"));
    assert_eq!(files, run.map(String::from).collect());
}

/// `examples/README.md` has a line per example, with a description and its command. Each file names
/// the command, too.
#[test]
fn every_example_is_listed_with_its_command() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let list = std::fs::read_to_string(root.join("examples/README.md")).unwrap();
    let lines: Vec<Vec<&str>> = list
        .lines()
        .filter(|line| line.starts_with("| ["))
        .map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect())
        .collect();
    let mut listed = BTreeSet::new();
    for line in &lines {
        let [link, shows, command] = line[..] else { panic!("{line:?} has not three cells") };
        let path = link.split_once("](").unwrap().1.trim_end_matches(')');
        let text = std::fs::read_to_string(root.join("examples").join(path)).unwrap();
        assert!(text.starts_with("//! ") && !shows.is_empty(), "{path}");
        let file = Path::new(path);
        let name = file.file_stem().unwrap().to_str().unwrap();
        let top = file.iter().next().unwrap().to_str().unwrap().trim_end_matches(".rs");
        let expected = match (top, name) {
            ("patterns", "main") => "cargo run --example patterns".into(),
            ("patterns", name) => format!("cargo run --example patterns -- {name}"),
            ("genai_model", _) => {
                "cargo run --manifest-path examples/genai_model/Cargo.toml".into()
            }
            (top, _) if PACKAGES.contains(&top) => {
                format!("cargo run -p {}", top.replace('_', "-"))
            }
            _ => format!("cargo run --example {name}"),
        };
        assert!(command.contains(&format!("{expected}`")), "{path}: {command}");
        let is_part = path.starts_with("patterns/") && name != "main";
        if file.parent() == Some(Path::new("")) {
            assert!(text.contains(&format!("{expected}`")), "{path} does not name its command");
        }
        if !is_part {
            assert!(listed.insert(top.to_owned()), "{top} is listed twice");
        }
    }
    let mut files = names("examples");
    files.remove("README");
    assert_eq!(listed, files);
    let parts = lines.iter().filter(|line| line[0].contains("](patterns/")).count();
    assert_eq!(parts, names("examples/patterns").len());
}

/// Returns the names that the example of the patterns lists for an unknown name.
fn listed_patterns() -> BTreeSet<String> {
    let unknown = run("patterns", &["rag", "unknown"]);
    assert_eq!((unknown.status.code(), &*unknown.stdout), (Some(2), &b""[..]));
    let error = String::from_utf8(unknown.stderr).unwrap();
    let (error, listed) = error.trim_end().split_once("; the examples are: ").unwrap();
    assert_eq!(error, "there is no example `unknown`");
    listed.split(", ").map(String::from).collect()
}

#[test]
fn each_pattern_of_the_library_has_an_example_which_can_be_run_alone() {
    let mut patterns = names("patterns/src");
    for other in ["conformance", "lib", "vote"] {
        assert!(patterns.remove(other), "there is no `{other}`");
    }
    patterns.insert("branches".into()); // of a graph
    let mut files = names("examples/patterns");
    assert!(files.remove("main"));
    assert_eq!(files, patterns);
    assert_eq!(listed_patterns(), patterns);
    for name in patterns {
        let run = run("patterns", &[&name]);
        let out = String::from_utf8_lossy(&run.stdout);
        let headings: Vec<_> = out.lines().filter(|line| line.starts_with("== ")).collect();
        assert!(run.status.success(), "{name}: {}", String::from_utf8_lossy(&run.stderr));
        assert_eq!(headings, [format!("== {name}")]);
    }
}

/// Rejects the first proposals, and accepts the next.
fn decide(action: &ExternalAction) -> Decision {
    let answer = match action.question() {
        Some(question) if question.question.starts_with("Thunder") => "others",
        Some(_) => "these",
        None => return default_decision(action),
    };
    Decision::Provide(Provided::Input(answer.into()))
}

/// C153: the first graph of the example is correct.
#[tokio::test(start_paused = true)]
async fn the_graph_of_an_agent_conforms() {
    assert_conforms(graph::agent, conformance::scenarios()).await;
}

/// C153: the second graph of the example is correct.
#[tokio::test(start_paused = true)]
async fn the_graph_that_asks_and_returns_conforms() {
    let replies = ["Thunder", "Pebble", "Anchor", "Harbour", "Harbour."].map(Script::text);
    let rejected = Scenario::new("rejected proposals", replies).request("A name?");
    let scenarios = conformance::scenarios().into_iter().chain([rejected]).map(|scenario| {
        let with_models = scenario.agent(|agent, model| {
            agent.model_named("bold", model.clone()).model_named("calm", model.clone())
        });
        with_models.decisions(decide)
    });
    assert_conforms(graph::naming, scenarios.collect()).await;
}

async fn assert_conforms<P: BehaviorPattern + 'static>(
    pattern: impl Fn() -> P,
    scenarios: Vec<Scenario>,
) {
    let report = conformance::check(pattern, scenarios).await;
    let report = report.unwrap_or_else(|violation| panic!("{violation}"));
    assert!(report.sessions > 20 * report.scenarios, "{report:?}");
}

/// C153: the pattern of the example is correct.
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
