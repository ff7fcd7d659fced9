//! Sessions of other programs in the same store.

use std::fs;

use loopwright_core::testing::{Script, ScriptedModel, TestTool};
use loopwright_core::tool::Effect;
use loopwright_core::{GenericAgent, RunContext};
use loopwright_memory::Sqlite;
use loopwright_patterns::PiPattern;
use loopwright_test_support::process::{STORE, project};
use serde_json::{Value, json};

use crate::BIN;

/// C287: a session without settings, or with another program's settings, is shown and not
/// continued; nothing is written to it.
#[test]
fn a_session_of_another_program_is_only_read() {
    for settings in [None, Some(json!({ "model": "small" })), Some(json!({ "agent": "cook" }))] {
        let project = project();
        let path = project.path().join(STORE);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(foreign(&path, settings.clone()));
        let export = || BIN.run(&project, &["sessions", "export", "s"]).out;
        let before = export();
        let shown = BIN.run(&project, &["sessions", "show", "s"]);
        assert!(shown.code == 0 && shown.out.contains("Pay."), "{shown:?}");
        for args in [
            &["run", "--session", "s", "--model", "offline", "Hello"][..],
            &["approve", "s", "c1", "--model", "offline"],
            &["deny", "s", "c1", "--model", "offline"],
            &["chat", "--session", "s", "--model", "offline"],
        ] {
            let exit = BIN.run(&project, args);
            assert_eq!(exit.code, 2, "{settings:?} {args:?}: {exit:?}");
            let why = if settings == Some(json!({ "agent": "cook" })) { "`cook`" } else { "read" };
            assert!(exit.err.contains(why), "{settings:?} {args:?}: {exit:?}");
        }
        assert_eq!(export(), before, "{settings:?}");
    }
}

/// Creates the session `s`, in which a call waits.
async fn foreign(path: &std::path::Path, settings: Option<Value>) {
    let store = Sqlite::open(path).unwrap();
    let model = ScriptedModel::new([Script::calls([("c1", "pay", json!({}))])]);
    let pay = TestTool::new("pay").effect(Effect::AtMostOnce);
    let agent = GenericAgent::builder(model, PiPattern).tool(pay).build().unwrap();
    let mut context = RunContext::new().stored(&store, "s").await.unwrap();
    if let Some(settings) = settings {
        context = context.settings(settings);
    }
    let (handle, _events) = agent.run(context).await.unwrap();
    handle.prompt("Pay.").await.unwrap();
    handle.close().await;
}
