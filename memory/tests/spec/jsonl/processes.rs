//! Other processes on the same files.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};

use super::*;

/// Starts this test binary as another process, which runs [`other_process`] on the directory.
pub(super) fn other(command: &mut Command, what: &str, directory: &std::path::Path) -> Child {
    let args = [
        "--exact",
        "jsonl::processes::other_process",
        "--ignored",
        "--nocapture",
        "--test-threads=1",
    ];
    let command = command.args(args).env("SPEC_WHAT", what).env("SPEC_DIRECTORY", directory);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap()
}

pub(super) fn this_binary() -> Command {
    Command::new(std::env::current_exe().unwrap())
}

/// Returns the rest of the first line that contains this word.
pub(super) fn line(from: &mut impl BufRead, word: &str) -> String {
    let mut line = String::new();
    while from.read_line(&mut line).unwrap() > 0 {
        if let Some((_, rest)) = line.trim_end().split_once(word) {
            return rest.trim().to_owned();
        }
        line.clear();
    }
    panic!("the other process never printed {word}");
}

/// Runs in the other process.
#[tokio::test]
#[ignore = "a part of other tests, which run it as a separate process"]
async fn other_process() {
    let store = Jsonl::open(std::env::var_os("SPEC_DIRECTORY").unwrap());
    match std::env::var("SPEC_WHAT").unwrap().as_str() {
        "own" => {
            let memory = store.unwrap().open("s").await.unwrap();
            let at = memory.load(0).await.unwrap().len() as u64;
            append(&*memory, at, &[remembered("of the other process")]).await;
            println!("OWNED");
            std::io::stdout().flush().unwrap();
            // Waits until the process is killed.
            std::io::stdin().read_to_string(&mut String::new()).unwrap();
        }
        "fill" => super::disk::fill(&store.unwrap()).await,
        "read only" => super::disk::read_without_write_permission(&store.unwrap()).await,
        other => panic!("{other}"),
    }
}

/// C79: a session has one owner among processes, and is free as soon as that process is killed.
#[tokio::test]
async fn a_session_has_one_owner_among_processes() {
    let (directory, store, _) = store(&[&[remembered("one")]]).await;
    for round in 1..=5 {
        let mut child = other(&mut this_binary(), "own", directory.path());
        line(&mut BufReader::new(child.stdout.take().unwrap()), "OWNED");
        assert!(matches!(store.open("s").await, Err(MemoryError::InUse(_))));
        assert!(matches!(store.delete("s").await, Err(MemoryError::InUse(_))));
        assert_eq!(store.read("s", 0).await.unwrap().len(), 2 * round);
        assert_eq!(store.sessions().await.unwrap().len(), 1);
        child.kill().unwrap();
        child.wait().unwrap();
        let memory = store.open("s").await.unwrap();
        assert_eq!(memory.repaired(), None);
        append(&*memory, 2 * round as u64, &[remembered("of this one")]).await;
    }
}
