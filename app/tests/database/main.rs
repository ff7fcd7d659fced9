//! `loopwright` with its sessions in PostgreSQL.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may")]

mod cluster;
#[path = "../spec/http.rs"]
#[allow(dead_code, reason = "shared with the specification, which uses all of it")]
mod http;
#[path = "../../../memory/tests/postgres/server.rs"]
#[allow(dead_code, reason = "shared with the tests of the store, which use all of it")]
mod postgres;
#[path = "../spec/process.rs"]
#[allow(dead_code, reason = "shared with the specification, which uses all of it")]
mod process;
mod restate;
#[path = "../../../durable/tests/fleet/restate.rs"]
#[allow(dead_code, reason = "shared with the tests of the cluster, which use all of it")]
mod restate_server;
#[path = "../spec/server.rs"]
#[allow(dead_code, reason = "shared with the specification, which uses all of it")]
mod server;
#[path = "../spec/serve/shared.rs"]
mod shared;

use postgres::Server;
use process::{ADDRESS, Process, loopwright, project};
use tempfile::TempDir;

/// The binary that is tested.
pub(crate) const BIN: &str = env!("CARGO_BIN_EXE_loopwright");

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
    let run = loopwright(&dir, &["run", "--session", "s", "--model", "offline", "Count sheep"]);
    assert_eq!(run.code, 0, "{run:?}");
    assert!(loopwright(&dir, &["sessions", "list"]).out.contains("Count sheep"));
    assert!(loopwright(&dir, &["sessions", "search", "ount SHEE"]).out.contains("Count sheep"));
    let export = loopwright(&dir, &["sessions", "export", "s"]);
    assert!(export.code == 0 && export.out.contains("Count sheep"), "{export:?}");
    let deleted = loopwright(&dir, &["sessions", "delete", "s"]);
    assert_eq!(deleted.code, 0, "{deleted:?}");
    assert!(!Process::file(&dir, process::STORE).exists(), "there is no file");

    let secret = server.url().replace("test@", "test:open-sesame@");
    set_database(&dir, &secret);
    for args in [&["config"][..], &["config", "--json"]] {
        let shown = loopwright(&dir, args);
        assert!(shown.out.contains("postgres://") && !shown.out.contains("sesame"), "{shown:?}");
    }
    server.stop("fast");
    let failed = loopwright(&dir, &["sessions", "list"]);
    assert_eq!(failed.code, 2, "{failed:?}");
    assert!(failed.err.contains("check that the server runs"), "{failed:?}");
    assert!(!failed.err.contains("sesame"), "{failed:?}");
    set_database(&dir, "postgres://h:not-a-port/d");
    let failed = loopwright(&dir, &["sessions", "list"]);
    assert!(failed.err.contains("postgres://USER:PASSWORD@HOST"), "{failed:?}");
}
