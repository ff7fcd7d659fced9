//! Servers whose sessions are placed by a Restate server, which the test starts.

use loopwright_test_support::model_server::Server as Model;
use loopwright_test_support::restate::RestateServers;
use serde_json::json;

use crate::cluster::Worker;
use crate::started;

/// C342: a server that Restate places sessions on answers, and another one continues the run of a
/// server that is killed.
#[test]
fn restate_places_the_sessions_of_servers() {
    let (_database, dir) = started();
    let model = Model::start();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let restate = runtime.block_on(RestateServers::start(1));
    let (ingress, admin) = restate.addresses(0);
    let placement = format!("restate={ingress}");
    let flags = |port: u16| {
        let listen = format!("127.0.0.1:{port}");
        ["--placement", &placement, "--restate-admin", &admin, "--restate-listen", &listen]
            .map(str::to_owned)
    };
    let port = crate::cluster::free_port();
    let worker = Worker::start_with(&dir, &model, &flags(port));
    let created = worker.post("", json!({}));
    let session = created["id"].as_str().unwrap();
    worker.post(&format!("/{session}/prompt"), json!({ "message": "Tell me a story." }));
    let mut request = model.request();
    request.begin();
    request.text("Once upon ");
    let mut reader = worker.events(session, 0);
    reader.until_text("Once upon ");
    worker.process.kill();
    // It takes the address of the first one, as behind a balancer.
    let worker = Worker::start_with(&dir, &model, &flags(port));
    model.request().say("Once upon a time.");
    let mut reader = worker.events(session, 0);
    assert_eq!(reader.until("agent_end")["end"], "done");
}
