//! [`serve`] starts a server, [`run`] a script against it.

use std::path::Path;
use std::process::Stdio;

use loopwright_server::Server;
use loopwright_test_support::clients::clients;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, BufReader, Lines};
use tokio::net::TcpListener;
use tokio::process::{Child, Command};

/// Starts a server on this machine and returns its address. It ends with the test's runtime.
pub(crate) async fn serve(server: Server) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(loopwright_server::serve(listener, server, std::future::pending()));
    address
}

/// Runs a script of this directory, with Node.js or Python according to its extension. Its output
/// is shown, and the test fails if the script fails.
pub(crate) async fn run(script: &str, arguments: &[&str]) {
    let clients = clients();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(script);
    // Node.js looks for packages beside the script.
    let copy = clients.join(script);
    std::fs::copy(&source, &copy).unwrap();
    let mut command = match script.ends_with(".py") {
        true => Command::new("python3"),
        false => Command::new("node"),
    };
    command.arg(&copy).args(arguments).current_dir(&clients);
    command.env("PYTHONPATH", clients.join("python")).stdin(Stdio::null()).kill_on_drop(true);
    let output = command.output().await.unwrap_or_else(|why| panic!("{script}: {why}"));
    print!("{}", String::from_utf8_lossy(&output.stdout));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script} failed with {}:\n{errors}", output.status);
}

/// Starts a script of this directory, and returns the lines that it prints. It is killed when the
/// process is dropped.
pub(crate) async fn start(script: &str, arguments: &[&str]) -> (Lines<impl AsyncBufRead>, Child) {
    let clients = clients();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(script);
    let copy = clients.join(script);
    std::fs::copy(&source, &copy).unwrap();
    let mut command = Command::new("node");
    command.arg(&copy).args(arguments).current_dir(&clients);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
    let mut server = command.spawn().unwrap_or_else(|why| panic!("{script}: {why}"));
    let output = BufReader::new(server.stdout.take().unwrap());
    (output.lines(), server)
}
