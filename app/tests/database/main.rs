//! `loopwright` with its sessions in PostgreSQL.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may")]

mod cluster;
mod restate;
#[path = "../spec/serve/shared.rs"]
mod shared;

use loopwright_test_support::postgres::Server;
use loopwright_test_support::process::{ADDRESS, Binary, STORE, project};
use tempfile::TempDir;

/// The binary that is tested.
pub(crate) const BIN: Binary = Binary::new(env!("CARGO_BIN_EXE_loopwright"));

/// Makes a database the store of a test.
fn set_database(dir: &TempDir, address: &str) {
    std::fs::write(dir.path().join(ADDRESS), address).unwrap();
}

/// Starts a server, and returns it with a directory whose store it is.
fn started() -> (Server, TempDir) {
    let (server, dir) = (Server::start(), project());
    set_database(&dir, &server.url());
    (server, dir)
}

/// C335: two servers, a chat and commands on one database: each input arrives exactly once, and
/// both servers answer the same, while processes are killed.
#[test]
fn every_input_arrives_once_through_every_process_while_processes_are_killed() {
    let (_server, dir) = started();
    shared::check(&dir, &[]);
}

/// C335: the address of a database is a store for every command, and its password is not shown.
#[test]
fn every_command_uses_the_database() {
    let (server, dir) = started();
    let run = BIN.run(&dir, &["run", "--session", "s", "--model", "offline", "Count sheep"]);
    assert_eq!(run.code, 0, "{run:?}");
    assert!(BIN.run(&dir, &["sessions", "list"]).out.contains("Count sheep"));
    assert!(BIN.run(&dir, &["sessions", "search", "ount SHEE"]).out.contains("Count sheep"));
    let export = BIN.run(&dir, &["sessions", "export", "s"]);
    assert!(export.code == 0 && export.out.contains("Count sheep"), "{export:?}");
    let deleted = BIN.run(&dir, &["sessions", "delete", "s"]);
    assert_eq!(deleted.code, 0, "{deleted:?}");
    assert!(!dir.path().join(STORE).exists(), "there is no file");

    let secret = server.url().replace("test@", "test:open-sesame@");
    set_database(&dir, &secret);
    for args in [&["config"][..], &["config", "--json"]] {
        let shown = BIN.run(&dir, args);
        assert!(shown.out.contains("postgres://") && !shown.out.contains("sesame"), "{shown:?}");
    }
    server.stop("fast");
    let failed = BIN.run(&dir, &["sessions", "list"]);
    assert_eq!(failed.code, 2, "{failed:?}");
    assert!(failed.err.contains("check that the server runs"), "{failed:?}");
    assert!(!failed.err.contains("sesame"), "{failed:?}");
    set_database(&dir, "postgres://h:not-a-port/d");
    let failed = BIN.run(&dir, &["sessions", "list"]);
    assert!(failed.err.contains("postgres://USER:PASSWORD@HOST"), "{failed:?}");
}
