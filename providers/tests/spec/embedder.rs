//! Vectors of texts from a server with OpenAI's API.

use std::time::Duration;

use loopwright_core::model::ModelError;
use loopwright_core::retrieval::{Embedder, RetrievalError};
use loopwright_providers::{Http, OpenAiChat, OpenAiEmbedder, Timeouts};
use serde_json::{Value, json};

use crate::server::{Exchange, Server};

fn embedder(server: &Server) -> OpenAiEmbedder {
    let builder = OpenAiChat::builder("m").base_url(server.url()).provider("local");
    let builder = builder.api_key("of-your-own-key").option("dimensions", json!(2));
    builder.build_embedder(2).unwrap().max_delay(Duration::from_millis(1))
}

async fn answer(http: &mut Exchange, body: &Value) {
    http.answer("200 OK", "connection: close\r\n", &body.to_string()).await;
}

/// Returns the response with a vector for each text of the request, in reverse order. The vector of
/// `text 5` is `[5, 1]`.
fn vectors(request: &Value) -> Value {
    let vector = |text: &Value| {
        let number: f32 = text.as_str().unwrap().trim_start_matches("text ").parse().unwrap();
        json!([number, 1.0])
    };
    let texts = request["input"].as_array().unwrap().iter().enumerate();
    let data = texts.map(|(at, text)| json!({"index": at, "embedding": vector(text)}));
    let data: Vec<Value> = data.rev().collect();
    json!({ "object": "list", "data": data, "usage": {"total_tokens": 1} })
}

/// C182: texts are embedded in batches, and the vectors are in the order of the texts.
#[tokio::test]
async fn texts_are_embedded_in_batches_in_their_order() {
    let server = Server::start().await;
    let embedder = embedder(&server);
    let texts: Vec<String> = (0..200).map(|n| format!("text {n}")).collect();
    let serve = async {
        for size in [128, 72] {
            let mut http = server.accept().await;
            assert!(http.head.starts_with("post /v1/embeddings http/1.1\r\n"), "{}", http.head);
            assert!(http.head.contains("authorization: bearer of-your-own-key\r\n"));
            assert_eq!(http.body["input"].as_array().unwrap().len(), size);
            assert_eq!((&http.body["model"], &http.body["dimensions"]), (&json!("m"), &json!(2)));
            let body = vectors(&http.body);
            answer(&mut http, &body).await;
        }
    };
    let (embedded, ()) = tokio::join!(embedder.embed(&texts), serve);
    let expected: Vec<Vec<f32>> = (0..200).map(|n| vec![n as f32, 1.0]).collect();
    assert_eq!(embedded.unwrap(), expected);
    assert_eq!((embedder.dimensions(), embedder.id()), (2, "local/m/2"));
    assert_eq!(embedder.embed(&[]).await.unwrap(), Vec::<Vec<f32>>::new());
}

/// C182: a request that fails in a way that may pass is sent again.
#[tokio::test]
async fn a_failure_that_may_pass_is_retried() {
    let server = Server::start().await;
    let embedder = embedder(&server);
    let serve = async {
        let close = "connection: close\r\n";
        server.accept().await.answer("503 Busy", close, "{}").await;
        server.accept().await.answer("200 OK", close, r#"{"data": [{"index": 0"#).await;
        let mut http = server.accept().await;
        let body = vectors(&http.body);
        answer(&mut http, &body).await;
    };
    let texts = ["text 1".into()];
    let (embedded, ()) = tokio::join!(embedder.embed(&texts), serve);
    assert_eq!(embedded.unwrap(), [[1.0, 1.0]]);
}

/// C182: the error names the server and the remedy, and contains no key.
#[tokio::test]
async fn a_final_failure_says_what_was_wrong() {
    let one =
        |embedding: Value| json!({"data": [{"index": 0, "embedding": embedding}]}).to_string();
    for (status, body, expected) in [
        ("401 No", r#"{"error": {"message": "Bad: of-your-own-key"}}"#.to_owned(), "Bad: ***"),
        ("404 No", r#"{"error": {"message": "no m"}}"#.to_owned(), "Check the model's name"),
        ("200 OK", "<html>Log in</html>".to_owned(), "web page"),
        ("200 OK", one(json!([1.0, 2.0, 3.0])), "a vector of 3 dimensions for `m`, not 2"),
    ] {
        let server = Server::start().await;
        let embedder = embedder(&server);
        let serve = async {
            server.accept().await.answer(status, "connection: close\r\n", &body).await;
        };
        let texts = ["text 1".into()];
        let (result, ()) = tokio::join!(embedder.embed(&texts), serve);
        let error = result.unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
        assert!(error.to_string().starts_with("local at 127.0.0.1:"), "{error}");
        let RetrievalError::Failed(failure) = error else { panic!("{error}") };
        assert!(std::error::Error::source(&failure).unwrap().is::<ModelError>());
    }
}

/// C182: after the last attempt the error is returned, even if the server does not answer.
#[tokio::test]
async fn the_attempts_are_bounded() {
    let server = Server::start().await;
    let timeouts = Timeouts { first_event: Duration::from_millis(20), ..Timeouts::default() };
    let builder =
        OpenAiChat::builder("m").base_url(server.url()).http(Http::with_timeouts(timeouts));
    let embedder =
        builder.build_embedder(2).unwrap().max_delay(Duration::from_millis(1)).attempts(2);
    let silent = async {
        let _first = server.accept().await;
        let mut second = server.accept().await;
        let missing = json!({"data": []});
        answer(&mut second, &missing).await;
    };
    let texts = ["text 1".into()];
    let (result, ()) = tokio::join!(embedder.embed(&texts), silent);
    assert!(result.unwrap_err().to_string().contains("sent 0 vectors for 1 texts"));
}
