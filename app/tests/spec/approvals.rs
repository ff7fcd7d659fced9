//! Approvals on the command line: descriptions, deadlines, quorums, and the record of decisions.

use std::path::Path;
use std::sync::Arc;

use loopwright_core::SessionStore;
use loopwright_core::log::LogEntry;
use loopwright_core::tool::{ActionTerms, DecisionKind};
use loopwright_memory::Sqlite;
use loopwright_test_support::process::{Exit, project};
use serde_json::Value;
use tempfile::TempDir;

use crate::BIN;

const WRITE: &str = "Create a.txt with \"hi\"";

/// Runs the agent until its call waits, and changes the terms of the call in the store.
async fn waiting(project: &TempDir, store: &Path, change: impl Fn(&mut ActionTerms)) {
    let file = store.to_str().unwrap();
    let run = ["run", "--model", "offline", "--session", "s", "--store", file, WRITE];
    assert_eq!(BIN.run(project, &run).code, 3);
    let store = Sqlite::open(store).unwrap();
    let mut entries = store.read("s", 0).await.unwrap();
    for entry in &mut entries {
        if let LogEntry::CallAwaiting { terms, .. } = entry {
            change(Arc::make_mut(terms));
        }
    }
    store.delete("s").await.unwrap();
    store.open("s").await.unwrap().append(0, entries.into()).await.unwrap();
}

fn last_line(exit: &Exit) -> &str {
    exit.err.lines().last().unwrap_or_default()
}

/// C245: `actions` shows what an approver needs, in words. A decision that is not allowed, or does
/// not name its author, is refused. `audit` lists who decided what.
#[tokio::test]
async fn a_call_with_a_quorum_is_approved_by_two_people() {
    let project = project();
    let file = project.path().join("sessions.db");
    waiting(&project, &file, |terms| {
        terms.description = Some("Writes the greeting.".into());
        terms.roles = vec!["author".into()];
        terms.deadline = Some(4_000_000_000_000);
        terms.decisions = vec![DecisionKind::Approve];
        terms.quorum = 2;
    })
    .await;
    let store = file.to_str().unwrap();
    let call = |arguments: &[&str]| BIN.run(&project, &[arguments, &["--store", store]].concat());
    let listed = call(&["actions"]).out;
    for text in
        ["Writes the greeting.", "for author", "denied by default on 2096-", "needs 2 approvals"]
    {
        assert!(listed.contains(text), "{text}: {listed}");
    }
    let json: Value = serde_json::from_str(&call(&["actions", "--json"]).out).unwrap();
    let id = json["call"].as_str().unwrap();
    assert_eq!(json["terms"]["quorum"], 2);
    let nobody = call(&["approve", "s", id]);
    assert!(nobody.code == 2 && nobody.err.contains("--by NAME"), "{nobody:?}");
    let edited = call(&["approve", "s", id, "--by", "ann", "--args", "{}"]);
    assert!(edited.code == 2 && edited.err.contains("2 people must approve"), "{edited:?}");
    let first = call(&["approve", "s", id, "--by", "ann"]);
    assert_eq!(
        (first.code, last_line(&first)),
        (3, "The call waits: 1 of 2 approvals so far: ann.")
    );
    assert!(call(&["actions"]).out.contains("1 of 2 approvals so far: ann"));
    assert!(!project.path().join("a.txt").exists());
    let twice = call(&["approve", "s", id, "--by", "ann"]);
    assert!(twice.code == 2 && twice.err.contains("has approved this call already"), "{twice:?}");
    let second = call(&["approve", "s", id, "--by", "bob"]);
    assert_eq!(second.code, 0, "{second:?}");
    assert!(project.path().join("a.txt").exists());

    let audit = call(&["audit"]);
    let lines: Vec<&str> = audit.out.lines().collect();
    assert_eq!((audit.code, lines.len()), (0, 2));
    assert!(
        lines[0].contains("  bob  command  s  ")
            && lines[0].ends_with("  approve")
            && lines[0].contains(&format!("  write_file  {}  ", json["digest"].as_str().unwrap()))
    );
    assert!(
        lines[1].contains("  ann  ") && lines[1].ends_with("approve (more needed)"),
        "{audit:?}"
    );
    let json = call(&["audit", "s", "--by", "ann", "--json", "--since", "2020-01-01"]);
    let record: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!((&record["by"], &record["resolved"]), (&"ann".into(), &false.into()));
    assert_eq!(call(&["audit", "--limit", "1"]).out.lines().count(), 1);
    assert_eq!(call(&["audit", "--until", "2020-01-01"]).code, 1);
    let wrong = call(&["audit", "--since", "yesterday"]);
    assert!(wrong.code == 2 && wrong.err.contains("--since is no time"), "{wrong:?}");
}

/// C246: commands that open a session whose deadline has passed take the default first: a late
/// approval is refused, and a request comes after it.
#[tokio::test]
async fn a_session_that_is_overdue_takes_the_default_when_a_command_opens_it() {
    for command in ["approve", "run"] {
        let project = project();
        let file = project.path().join("sessions.db");
        waiting(&project, &file, |terms| terms.deadline = Some(1)).await;
        let store = file.to_str().unwrap();
        let exit = match command {
            "approve" => {
                let listed = BIN.run(&project, &["actions", "--json", "--store", store]);
                let action: Value = serde_json::from_str(&listed.out).unwrap();
                let call = action["call"].as_str().unwrap();
                let exit = BIN.run(&project, &["approve", "s", call, "--store", store]);
                assert_eq!(exit.code, 2, "{exit:?}");
                exit
            }
            _ => {
                let run = ["run", "--session", "s", "--store", store, "Say hello"];
                BIN.run(&project, &run)
            }
        };
        assert!(!project.path().join("a.txt").exists(), "{exit:?}");
        let audit = BIN.run(&project, &["audit", "--json", "--store", store]);
        let record: Value = serde_json::from_str(audit.out.lines().next().unwrap()).unwrap();
        assert_eq!((&record["by"], &record["decision"]), (&"system".into(), &"deny".into()));
        assert_eq!(BIN.run(&project, &["actions", "--store", store]).code, 1, "{command}");
    }
}
