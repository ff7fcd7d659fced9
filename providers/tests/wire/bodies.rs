//! The request bodies of random histories, for a check against the types that the providers
//! publish: `providers/tests/bodies/run`. A history is the same for all models, as it is after a
//! change of the model.

mod histories;
mod targets;
mod values;

use std::io::Write;
use std::time::Duration;

use futures::StreamExt;
use loopwright_core::ChatModel;
use loopwright_core::model::ChatRequest;

use self::targets::TARGETS;
use crate::random::Random;
use crate::sessions::server::Server;

const HISTORIES: usize = 420;
/// The seed of the histories, unless `LOOPWRIGHT_SEED` is another.
const SEED: u64 = 0x5eed;

/// C483: Writes one line of JSON for each history and target to the file in `LOOPWRIGHT_BODIES`.
#[tokio::test]
#[ignore = "`providers/tests/bodies/run` runs it, and checks what it writes"]
async fn bodies_of_random_histories() {
    let path = std::env::var_os("LOOPWRIGHT_BODIES").expect("LOOPWRIGHT_BODIES names a file");
    let mut lines = std::io::BufWriter::new(std::fs::File::create(path).unwrap());
    let mut random = Random::new(Random::given_seed().unwrap_or(SEED));
    let server = Server::start().await;
    let models = TARGETS.map(|target| {
        let [plain, with_options] = [false, true].map(|own| target.model(&server.url(), own));
        (target, plain, with_options)
    });
    for history in 0..HISTORIES {
        let request = histories::request(&mut random, history);
        let own_options = random.percent(25);
        for (target, plain, with_options) in &models {
            let mut request = request.clone();
            if !target.stops() {
                request.stop.clear();
            }
            let model = if own_options { with_options } else { plain };
            let body = sent(model, request, &server).await;
            let (id, wire) = (target.id, target.wire.name());
            writeln!(
                lines,
                r#"{{"target":"{id}","wire":"{wire}","history":{history},"body":{body}}}"#
            )
            .unwrap();
        }
    }
    lines.flush().unwrap();
}

/// Returns the body that a model sends to its server.
async fn sent(model: &dyn ChatModel, request: ChatRequest, server: &Server) -> String {
    let received = async {
        let mut http = server.accept().await;
        let body = std::mem::take(&mut http.raw);
        http.answer("401 Unauthorized", "connection: close\r\n", "{}").await;
        body
    };
    let both = async { tokio::join!(received, model.stream(request).collect::<Vec<_>>()) };
    let both = tokio::time::timeout(Duration::from_secs(60), both).await;
    both.unwrap().0
}
