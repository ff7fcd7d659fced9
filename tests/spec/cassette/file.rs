//! The file of a cassette.

use loopwright_core::testing::{Cassette, CassetteErrorKind};

use super::*;

fn agent(model: ScriptedModel) -> AgentBuilder {
    let look = TestTool::new("look").effect(Effect::ReadOnly);
    GenericAgent::builder(model, PiPattern).system("You look.").tool(look)
}

async fn record(folder: &Folder) {
    let record = Cassette::record(folder.path()).unwrap();
    let model = ScriptedModel::new([calls(&["look"]), Script::text("Nice.")]);
    session(&record, agent(model), async |handle| prompt(handle, "Look.").await).await;
    record.finish().unwrap();
}

fn refused(folder: &Folder) -> String {
    let error = Cassette::replay(folder.path()).unwrap_err();
    assert_eq!(error.kind(), CassetteErrorKind::File);
    error.to_string().replace(&*folder.path().to_string_lossy(), "FILE")
}

/// C180: The same run gives the same bytes. A request contains only its new parts.
#[tokio::test(start_paused = true)]
async fn the_same_run_gives_the_same_file() {
    let (one, two) = (Folder::new(), Folder::new());
    record(&one).await;
    record(&two).await;
    assert_eq!(one.text(), two.text());
    let expected = [
        r#"{"loopwright_cassette":1}"#,
        r#"{"type":"model","agent":1,"info":{"id":"test/scripted"}}"#,
        r#"{"type":"request","session":"root","number":1,"request":{"system":"You look.","#,
        r#"{"type":"call","session":"root","number":1,"id":"a","tool":"look","arguments":{},"#,
        r#"{"type":"request","session":"root","number":2,"request":{"kept":1,"messages":[{"#,
        r#"{"type":"end"}"#,
    ];
    let text = one.text();
    assert_eq!(text.lines().count(), expected.len(), "{text}");
    for (line, start) in text.lines().zip(expected) {
        assert!(line.starts_with(start), "{line}");
    }
}

/// C180: Only its owner can read the file.
#[cfg(unix)]
#[tokio::test(start_paused = true)]
async fn only_the_owner_can_read_it() {
    let folder = Folder::new();
    record(&folder).await;
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &std::fs::metadata(folder.path()).unwrap().permissions(),
    );
    assert_eq!(mode & 0o777, 0o600);
}

/// A tool that suspends for a login, and then only reports that it is done.
struct Login(Arc<ToolSpec>);

#[async_trait::async_trait]
impl Tool for Login {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.0
    }

    async fn call(&self, _: &Value, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        match cx.decision() {
            Some(decision) if decision.data == json!("hunter2") => Ok("Logged in.".into()),
            _ => Err(ToolError::Suspend(ActionRequest::new("login", json!({"host": "here"})))),
        }
    }
}

/// C180: The file contains neither the answer to a secret question nor the decisions for a tool.
#[tokio::test(start_paused = true)]
async fn it_contains_no_decision() {
    let folder = Folder::new();
    let pattern = || {
        does(|step| {
            Box::pin(async move {
                step.take_input().await?;
                let question = Question::secret("The password?").shown();
                let answer = step.question("password", question).await?.answer()?;
                assert!(answer == Some(json!("hunter2")));
                PiPattern.next_step(step).await
            })
        })
    };
    let agent = |model| {
        let spec = ToolSpec::with_schema("login", "Logs in.", json!({"type": "object"}));
        let login = Login(Arc::new(spec.effect(Effect::ReadOnly)));
        GenericAgent::builder(model, pattern()).tool(login)
    };
    let replies = [calls(&["login"]), Script::text("Done.")];
    assert_replays(&folder.path(), replies, agent, async |handle| {
        prompt(handle, "Log in.").await;
        decide_all(handle, Decision::Provide(Provided::Input(json!("hunter2")))).await;
    })
    .await;
    let text = folder.text();
    assert!(text.contains("The password?") && text.contains(r#""decided":true"#), "{text}");
    assert!(!text.contains("hunter2"), "{text}");
}

/// C180: A file is not overwritten.
#[tokio::test(start_paused = true)]
async fn an_existing_file_is_not_overwritten() {
    let folder = Folder::new();
    record(&folder).await;
    let before = folder.text();
    let error = Cassette::record(folder.path()).unwrap_err();
    let expected = format!(
        "the cassette {} exists already: delete it to record again, or replay it",
        folder.path().display()
    );
    assert_eq!((error.to_string(), folder.text()), (expected, before));
}

/// C180: A file that was cut off at any byte is not replayed.
#[tokio::test(start_paused = true)]
async fn a_file_that_was_cut_off_is_refused() {
    let folder = Folder::new();
    record(&folder).await;
    let whole = folder.text();
    let header = whole.find('\n').unwrap();
    for length in header + 1..whole.len() {
        std::fs::write(folder.path(), &whole.as_bytes()[..length]).unwrap();
        let expected = "the cassette FILE was cut off: the program that recorded it ended before \
                        `Cassette::finish`; delete the file and record it again";
        assert_eq!(refused(&folder), expected);
    }
    std::fs::write(folder.path(), &whole).unwrap();
    Cassette::replay(folder.path()).unwrap();
}

/// C180: Files of a later version, other files and missing files are refused.
#[test]
fn other_files_are_refused() {
    let folder = Folder::new();
    assert!(refused(&folder).starts_with("the cassette FILE cannot be read: "));
    for (text, expected) in [
        ("{\"loopwright_cassette\":2}\n", "has the version 2, and this program reads version 1"),
        ("{\"loopwright_recording\":1}\n", "does not begin with the line"),
        ("", "does not begin with the line"),
        ("{\"loopwright_cassette\":1}\n{\"type\":\"x\"}\n", "has a line 2 that cannot be read"),
        (
            "{\"loopwright_cassette\":1}\n{\"type\":\"end\"}\n{\"type\":\"end\"}\n",
            "has a line 3 after its end",
        ),
        (
            "{\"loopwright_cassette\":1}\n{\"type\":\"request\",\"session\":\"s\",\"number\":1,\
             \"request\":{\"kept\":1,\"messages\":[]},\"events\":[]}\n{\"type\":\"end\"}\n",
            "has a line 2 that continues one that is missing",
        ),
    ] {
        std::fs::write(folder.path(), text).unwrap();
        let error = refused(&folder);
        assert!(error.starts_with(&format!("the cassette FILE {expected}")), "{error}");
    }
}

/// C180: Anything after the end of the recording fails instead of being left out.
#[tokio::test(start_paused = true)]
async fn nothing_is_recorded_after_the_end() {
    let folder = Folder::new();
    let cassette = Cassette::record(folder.path()).unwrap();
    let model = ScriptedModel::new([Script::text("One."), Script::text("Two.")]);
    session(&cassette, agent(model), async |handle| {
        prompt(handle, "One.").await;
        cassette.finish().unwrap();
        let error = handle.prompt("Two.").await.unwrap().error.unwrap();
        assert!(error.contains("is finished: call `Cassette::finish` after"), "{error}");
    })
    .await;
    assert_eq!(Cassette::replay(folder.path()).unwrap().remaining(), 1);
}
