//! `Fallback`: the order of the models, and the events.

use std::time::Duration;

use futures::StreamExt;
use loopwright_core::ChatModel;
use loopwright_core::model::{ModelError, ModelErrorKind, ModelEvent, ModelInfo, Prices};
use loopwright_core::testing::{Gate, Script};
use loopwright_providers::{Fallback, Retry};

use crate::kit::{events, request, scripted, transcript};

fn fails(kind: ModelErrorKind) -> Script {
    Script::error(kind, &format!("{kind:?}."))
}

async fn last_error(model: &impl ChatModel) -> ModelError {
    match events(model).await.pop() {
        Some(ModelEvent::Error(error)) => error,
        other => panic!("no error: {other:?}"),
    }
}

#[tokio::test]
async fn the_first_model_answers_if_it_can() {
    let second = scripted("b/2", [Script::text("no")]);
    let model = Fallback::new(scripted("a/1", [Script::text("yes")])).or(second.clone());
    assert_eq!(transcript(&model).await, "@a/1 +yes.$");
    assert!(second.requests().is_empty());
}

#[tokio::test]
async fn the_next_model_is_asked_after_what_it_may_do_better() {
    use ModelErrorKind::*;
    for kind in [
        Auth,
        RateLimited,
        QuotaExhausted,
        PaymentRequired,
        Overloaded,
        Unreachable,
        Network,
        Timeout,
        Protocol,
        Malformed,
    ] {
        let model = Fallback::new(scripted("a/1", [fails(kind)]))
            .or(scripted("b/2", [Script::text("yes")]));
        assert_eq!(transcript(&model).await, "@a/1 @b/2 +yes.$", "{kind:?}");
    }
    for kind in [ContextOverflow, InvalidRequest, ContentFiltered] {
        let model =
            Fallback::new(scripted("a/1", [fails(kind)])).or(scripted("b/2", [Script::text("no")]));
        assert_eq!(last_error(&model).await, ModelError::new(kind, format!("{kind:?}.")));
        let model = Fallback::new(scripted("a/1", [fails(kind)]))
            .or(scripted("b/2", [Script::text("yes")]))
            .on([kind]);
        assert_eq!(transcript(&model).await, "@a/1 @b/2 +yes.$", "{kind:?}");
    }
}

#[tokio::test]
async fn a_half_streamed_attempt_is_withdrawn() {
    let broken = Script::text("half").fail(ModelErrorKind::Network, "cut");
    let model =
        Fallback::new(scripted("a/1", [broken])).or(scripted("b/2", [Script::text("whole")]));
    assert_eq!(transcript(&model).await, "@a/1 +half.<@b/2 +whole.$");
}

#[tokio::test]
async fn a_stream_that_just_ends_is_a_failure() {
    let model = Fallback::new(scripted("a/1", [Script::text("half").cut()]))
        .or(scripted("b/2", [Script::new().cut()]));
    let error = last_error(&model).await;
    assert_eq!(error.kind, ModelErrorKind::Network);
    assert!(error.message.contains("`b/2` ended before it was complete"), "{error}");
}

#[tokio::test]
async fn after_the_last_model_the_error_contains_each_error() {
    use ModelErrorKind::*;
    let model =
        Fallback::new(scripted("a/1", [fails(Overloaded)])).or(scripted("b/2", [fails(Auth)]));
    let error = last_error(&model).await;
    assert_eq!(error.message, "None of 2 models could answer. `a/1`: Overloaded. `b/2`: Auth.");
    assert_eq!(error.kind, Overloaded, "which may pass");
    let model = Fallback::new(scripted("a/1", [fails(Overloaded)]))
        .or(scripted("b/2", [fails(InvalidRequest)]));
    let error = last_error(&model).await;
    assert_eq!((error.kind, error.message.contains("`a/1`: Overloaded.")), (InvalidRequest, true));
    let model = Fallback::new(scripted("a/1", [fails(Auth)]));
    assert_eq!(last_error(&model).await.message, "Auth.");
}

#[tokio::test(start_paused = true)]
async fn each_model_may_be_retried_before_the_next_one_is_asked() {
    let broken = Script::text("half").fail(ModelErrorKind::Network, "cut");
    let first = scripted("a/1", [broken.clone(), broken]);
    let second = scripted("b/2", [fails(ModelErrorKind::Overloaded), Script::text("whole")]);
    let model = Fallback::new(Retry::new(first).attempts(2)).or(Retry::new(second));
    assert_eq!(transcript(&model).await, "@a/1 +half.<~+half.<@b/2 ~+whole.$");
}

#[tokio::test(start_paused = true)]
async fn all_models_can_be_tried_in_turn_before_any_is_retried() {
    let first = scripted("a/1", [fails(ModelErrorKind::Overloaded), Script::text("yes")]);
    let second = scripted("b/2", [Script::text("half").fail(ModelErrorKind::Timeout, "late")]);
    let model = Retry::new(Fallback::new(first).or(second));
    assert_eq!(transcript(&model).await, "@a/1 @b/2 +half.<~@a/1 +yes.$");
}

#[tokio::test(start_paused = true)]
async fn only_streamed_output_is_withdrawn_and_only_once() {
    let broken = Script::text("half").fail(ModelErrorKind::Network, "cut");
    let first =
        Retry::new(scripted("a/1", [broken, fails(ModelErrorKind::Overloaded)])).attempts(2);
    let model = Fallback::new(first).or(scripted("b/2", [Script::text("yes")]));
    assert_eq!(transcript(&model).await, "@a/1 +half.<~@b/2 +yes.$");
    let first = scripted("a/1", [fails(ModelErrorKind::Overloaded), Script::text("yes")]);
    let model =
        Retry::new(Fallback::new(first).or(scripted("b/2", [fails(ModelErrorKind::Timeout)])));
    assert_eq!(
        transcript(&model).await,
        "@a/1 @b/2 ~@a/1 +yes.$",
        "who answers is nothing that was said"
    );
}

#[tokio::test]
async fn the_second_model_is_not_asked_before_the_first_has_failed() {
    let (gate, second) = (Gate::new(), scripted("b/2", [Script::text("yes")]));
    let first = scripted("a/1", [Script::new().gate(&gate).fail(ModelErrorKind::Network, "cut")]);
    let model = Fallback::new(first).or(second.clone());
    let mut stream = model.stream(request("Hello"));
    assert!(matches!(stream.next().await, Some(ModelEvent::AnsweredBy(_))));
    assert!(futures::poll!(stream.next()).is_pending() && second.requests().is_empty());
    gate.open();
    assert!(
        matches!(stream.next().await, Some(ModelEvent::AnsweredBy(info)) if &*info.id == "b/2")
    );
    assert_eq!(second.requests().len(), 1);
}

#[test]
fn what_is_known_of_it_holds_for_each_of_its_models() {
    let prices = Prices::new(1.0, 0.0);
    let known = |window| {
        scripted("b/2", [])
            .info(ModelInfo::new("b/2").with_prices(prices).with_context_window(window))
    };
    let info = Fallback::new(known(100)).or(known(50)).info().clone();
    assert_eq!((&*info.id, info.prices, info.context_window), ("b/2", Some(prices), Some(50)));
    let info = Fallback::new(known(100)).or(scripted("a/1", [])).info().clone();
    assert_eq!((info.prices, info.context_window), (None, Some(100)));
    let able = |tokens, thinking, images| {
        let mut info = ModelInfo::new("b/2").with_max_output(tokens);
        (info.thinking, info.images) = (thinking, images);
        scripted("b/2", []).info(info)
    };
    let info =
        Fallback::new(able(9, Some(true), Some(true))).or(able(7, Some(true), None)).info().clone();
    assert_eq!((info.max_output, info.thinking, info.images), (Some(7), Some(true), None));
    let info =
        Fallback::new(able(7, None, Some(true))).or(able(9, None, Some(false))).info().clone();
    assert_eq!((info.max_output, info.thinking, info.images), (Some(7), None, Some(false)));
}

#[tokio::test(start_paused = true)]
async fn the_error_asks_for_the_shortest_of_the_waits() {
    let limited = |seconds| {
        let mut error = ModelError::new(ModelErrorKind::RateLimited, "Wait.");
        error.retry_after = Some(Duration::from_secs(seconds));
        Script::new().event(ModelEvent::Error(error)).cut()
    };
    let model = Fallback::new(scripted("a/1", [limited(30)])).or(scripted("b/2", [limited(10)]));
    assert_eq!(last_error(&model).await.retry_after, Some(Duration::from_secs(10)));
}
