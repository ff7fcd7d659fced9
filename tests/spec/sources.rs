//! Tool sources: tools that come and go.

use std::sync::Mutex;

use crate::kit::*;

/// A source that lists the next of its lists in each run, and fails when none is left.
struct Shelf(Mutex<Vec<Vec<&'static str>>>);

impl Shelf {
    fn of<const N: usize>(runs: [&[&'static str]; N]) -> Shelf {
        Shelf(Mutex::new(runs.into_iter().rev().map(<[_]>::to_vec).collect()))
    }
}

#[async_trait::async_trait]
impl ToolSource for Shelf {
    async fn tools(&self) -> Result<Vec<Arc<dyn Tool>>, ToolError> {
        let names =
            self.0.lock().unwrap().pop().ok_or_else(|| ToolError::failed("the server is down"))?;
        Ok(names.into_iter().map(|name| Arc::new(TestTool::new(name)) as Arc<dyn Tool>).collect())
    }
}

/// C9: A source is asked at the start of each run, and the run has the tools that it returns then.
#[tokio::test(start_paused = true)]
async fn a_source_is_asked_at_each_runs_start() {
    let replies = [calls(&["one"]), Script::text("1"), Script::text("2")];
    let harness = pi_with(replies, &[TestTool::new("own")], |a| {
        a.tool_source("", Shelf::of([&["one"], &["two"]]))
    })
    .await;
    harness.handle.prompt("go").await.unwrap();
    harness.handle.prompt("go").await.unwrap();
    assert_eq!(
        [offered(&harness, 0), offered(&harness, 1), offered(&harness, 2)],
        [["one", "own"], ["one", "own"], ["own", "two"]]
    );
    assert_eq!(statuses(&harness).await, [ResultStatus::Ok]);
}

/// C9: Names get their source's prefix and are made valid and unique. The tool is called by the
/// name that the model sees.
#[tokio::test(start_paused = true)]
async fn names_get_the_prefix_and_are_made_legal_and_unique() {
    let replies = [calls(&["web_get_page_2", "web_get_page"]), Script::text("ok")];
    let harness = pi_with(replies, &[TestTool::new("get_page")], |a| {
        a.tool_source("web_", Shelf::of([&["get.page", "get page"]]))
            .tool_source("", Shelf::of([&["get.page"]]))
    })
    .await;
    harness.handle.prompt("go").await.unwrap();
    assert_eq!(offered(&harness, 0), ["get_page", "get_page_2", "web_get_page", "web_get_page_2"]);
    assert_eq!(result_of(&harness, "a").await, "get page done");
    assert_eq!(result_of(&harness, "b").await, "get.page done");
}

/// C9: A source that fails ends the run, once, with an error that names it. The request is kept,
/// and can be continued.
#[tokio::test(start_paused = true)]
async fn a_source_that_fails_ends_the_run_with_an_error() {
    let mut harness =
        pi_with([Script::text("never")], &[], |a| a.tool_source("web_", Shelf::of([]))).await;
    let outcome = harness.handle.prompt("go").await.unwrap();
    assert_eq!(outcome.end, RunStatus::Error);
    let why = outcome.error.unwrap();
    assert!(why.contains("web_") && why.contains("the server is down"), "{why}");
    harness.handle.wait_for_idle().await;
    assert_eq!(
        kinds(&harness.drain_events()).iter().filter(|kind| *kind == "agent_end").count(),
        1
    );
    assert_eq!(
        (harness.transcript().await, harness.model.requests().len()),
        (vec!["U:go".to_owned()], 0)
    );
    assert_eq!(
        harness.handle.continue_run().await.unwrap().end,
        RunStatus::Error,
        "there is something to continue"
    );
}

/// A source that never answers.
struct Silent;

#[async_trait::async_trait]
impl ToolSource for Silent {
    async fn tools(&self) -> Result<Vec<Arc<dyn Tool>>, ToolError> {
        std::future::pending().await
    }
}

/// C9: An abort while a source is asked ends the run. The request does not start again.
#[tokio::test(start_paused = true)]
async fn an_abort_while_a_source_is_asked_ends_the_run() {
    let mut harness = pi_with([], &[], |a| a.tool_source("", Silent)).await;
    send(&harness, "go").await;
    sleep(ms(10)).await;
    harness.handle.abort().await.unwrap();
    harness.handle.wait_for_idle().await;
    let emitted = harness.drain_events();
    assert_eq!(end_of(&emitted), RunStatus::Aborted);
    assert_eq!(kinds(&emitted).iter().filter(|kind| *kind == "agent_start").count(), 1);
    harness.check().await;
}
