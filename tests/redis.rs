//! The example `custom_memory` against a real Redis: `cargo test --test redis`. Needs the program `redis-server`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed check is a failed test")]

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill(); // it may have ended
        let _ = self.0.wait();
    }
}

#[test]
fn a_store_of_ones_own_passes_the_conformance_suite() {
    let directory = tempfile::tempdir().unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let mut command = Command::new("redis-server");
    command.args(["--port", &port, "--save", "", "--appendonly", "yes", "--appendfsync", "always"]);
    command.arg("--dir").arg(directory.path()).stdout(Stdio::piped());
    let mut server = Server(command.spawn().expect("redis-server is installed"));
    let log = BufReader::new(server.0.stdout.take().unwrap());
    let ready = |line: &String| line.contains("Ready to accept connections");
    assert!(log.lines().map_while(Result::ok).any(|line| ready(&line)), "the server ended before it was ready");
    let example = std::env::current_exe().unwrap().ancestors().nth(2).unwrap().join("examples/custom_memory");
    let run = Command::new(example).env("REDIS_URL", format!("redis://127.0.0.1:{port}")).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success() && out.contains("The conformance suite is passed."), "{out}\n{err}");
}
