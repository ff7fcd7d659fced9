//! Sessions in a temporary store, with the offline model.

use clap::Parser;
use loopwright_core::SessionStore;
use loopwright_core::event::{InputEvent, StreamEnd};
use loopwright_core::model::ThinkingLevel;
use loopwright_memory::Jsonl;
use tempfile::TempDir;
use tokio::sync::mpsc;

use super::*;
use crate::args::{ChatArgs, Cli};
use crate::config::Config;
use crate::tui::state::{Effect, Source, Tone};

struct TestHost {
    dir: TempDir,
    host: Host,
    msgs: mpsc::UnboundedReceiver<Msg>,
    /// The events of the session that was opened last.
    events: Option<EventReader>,
}

impl TestHost {
    /// Opens the session that these arguments name.
    async fn begin(dir: TempDir, args: &[&str]) -> Self {
        let arguments = chat(&dir, args);
        TestHost::begin_with(dir, arguments).await
    }

    /// Opens another session, or the same one, as another process that uses the same store.
    async fn beside(&self, args: &[&str]) -> Self {
        TestHost::begin_with(tempfile::tempdir().unwrap(), chat(&self.dir, args)).await
    }

    async fn begin_with(dir: TempDir, arguments: ChatArgs) -> Self {
        let ChatArgs { session, options, .. } = arguments;
        let (msg_tx, msgs) = mpsc::unbounded_channel();
        let mut test = TestHost {
            dir,
            host: Host::new(options, Config::loopwright(), msg_tx),
            msgs,
            events: None,
        };
        test.host.open(Target::First(Box::new(session))).await;
        test
    }

    fn store(&self) -> Jsonl {
        Jsonl::open(self.dir.path().join("kept")).unwrap()
    }

    /// Takes the outcomes since the last call.
    fn outcomes(&mut self) -> Vec<Outcome> {
        let mut all = Vec::new();
        while let Ok(what) = self.msgs.try_recv() {
            all.push(match what {
                Msg::Outcome(outcomes) => outcomes,
                Msg::Opened(opened, events) => {
                    self.events = Some(events);
                    Outcome::Opened(opened)
                }
            });
        }
        all
    }

    fn opened(&mut self) -> Opened {
        match self.outcomes().pop() {
            Some(Outcome::Opened(opened)) => *opened,
            other => panic!("{other:?}"),
        }
    }

    /// Returns the reason why nothing was opened, and whether no session is open now.
    fn not_opened(&mut self) -> (String, bool) {
        match self.outcomes().pop() {
            Some(Outcome::NotOpened { why, closed }) => (why, closed),
            other => panic!("{other:?}"),
        }
    }

    async fn prompt(&mut self, text: &str) {
        self.host.handle().unwrap().prompt(text).await.unwrap();
    }

    /// Waits until the session has moved, and reopens it or attaches to it. Returns whether it is
    /// attached, and the thinking level.
    async fn level_after_move(&mut self) -> (bool, ThinkingLevel) {
        let mut events = self.events.take().unwrap();
        while events.next().await.is_some() {}
        assert_eq!(events.end(), Some(StreamEnd::Moved));
        self.host.reopen().await;
        let opened = self.opened();
        assert!(opened.same);
        (opened.is_attached, opened.state.thinking_level)
    }

    async fn end(mut self) -> TempDir {
        self.outcomes();
        self.events = None;
        self.host.shutdown().await;
        self.dir
    }
}

fn chat(dir: &TempDir, args: &[&str]) -> ChatArgs {
    let store_path = dir.path().join("kept/");
    let root = dir.path().to_str().unwrap();
    let store = [
        "loopwright",
        "--model",
        "offline",
        "--root",
        root,
        "--store",
        store_path.to_str().unwrap(),
    ];
    Cli::parse_from(store.iter().chain(args)).chat
}

/// C137: permissions and start options belong to their session: `/new` and `/fork` begin with the
/// options of the command line and with the model and the thinking level in use.
#[tokio::test]
async fn a_new_session_or_a_fork_inherits_no_permissions_from_the_open_one() {
    let dir = tempfile::tempdir().unwrap();
    let free =
        ["--session", "free", "--approve", "all", "--approve", "diff", "--unconfined", "--network"];
    let mut test = TestHost::begin(dir, &[&free[..], &["--thinking", "high"]].concat()).await;
    test.prompt("Hello").await;
    let dir = test.end().await;

    let mut test = TestHost::begin(dir, &["--session", "free"]).await;
    let outcomes = test.outcomes();
    let warned = |outcome: &Outcome| {
        let Outcome::Notice(Tone::Loud, text) = outcome else { return false };
        text.contains("all tools run without approval")
    };
    assert!(outcomes.iter().any(warned), "{outcomes:?}");
    let all_and_diff = vec!["all".to_owned(), "diff".to_owned()];
    assert_eq!(test.host.settings.active.approve, Some(all_and_diff));
    test.host.allow("execute_command");
    test.host.perform(Effect::SwitchThinking(ThinkingLevel::Low)).await;
    assert!(test.host.allowed.has("execute_command"), "the session is the same");

    for effect in [Effect::Fork(None), Effect::Open(None)] {
        test.host.open(Target::Named("free".into())).await;
        test.outcomes();
        test.host.allow("execute_command");
        test.host.perform(effect.clone()).await;
        let opened = test.opened();
        assert_eq!(opened.state.thinking_level, ThinkingLevel::Low, "{effect:?}");
        let options = &test.host.settings.active;
        assert_eq!(options.approve, None, "{effect:?}");
        let persisted = serde_json::to_value(options).unwrap();
        assert_eq!(
            (persisted.get("network"), persisted.get("unconfined")),
            (None, None),
            "{effect:?}"
        );
        assert!(!test.host.allowed.has("execute_command"), "{effect:?}");
        assert!(!test.host.allowed.has("diff"), "{effect:?}");
    }
}

#[tokio::test]
async fn a_thinking_level_chosen_in_the_interface_is_stored() {
    let mut test = TestHost::begin(tempfile::tempdir().unwrap(), &["--session", "a"]).await;
    test.prompt("Hello").await;
    test.host.perform(Effect::SwitchThinking(ThinkingLevel::High)).await;
    assert!(test.opened().same);
    let dir = test.end().await;
    let mut test = TestHost::begin(dir, &["--session", "a"]).await;
    assert_eq!(test.opened().state.thinking_level, ThinkingLevel::High);
}

/// C138: the current session is closed only after the other one has been opened: an unknown name
/// leaves it open.
#[tokio::test]
async fn a_session_that_cannot_be_opened_leaves_the_current_one_open() {
    let mut test = TestHost::begin(tempfile::tempdir().unwrap(), &["--session", "a"]).await;
    test.prompt("Hello").await;
    let store = test.store();
    test.outcomes();

    test.host.perform(Effect::Open(Some("nosuch".into()))).await;
    let (why, closed) = test.not_opened();
    assert!(why.contains("`nosuch`") && why.contains("/new") && !closed, "{why}");
    assert!(store.session("nosuch").await.is_err());
    test.prompt("Are you there?").await;

    test.host.perform(Effect::Open(Some("a".into()))).await;
    assert!(!test.not_opened().1);
    test.prompt("Are you there?").await;

    test.host.perform(Effect::SwitchModel("nobody/x".into())).await;
    let (why, closed) = test.not_opened();
    assert!(
        why.contains("/quit")
            && why.contains("--session a --model nobody/x --base-url URL")
            && !closed,
        "{why}"
    );
    test.prompt("Are you there?").await;
}

/// C316: a session that another process has open is shared with it. Its model changes there, it
/// stays when this process leaves, and it is open here when the other process has left.
#[tokio::test]
async fn a_session_in_use_is_shared_until_it_is_free() {
    let mut first = TestHost::begin(tempfile::tempdir().unwrap(), &["--session", "b"]).await;
    first.prompt("Hello").await;
    first.outcomes();

    // From an open session.
    let mut second = first.beside(&["--session", "a"]).await;
    assert!(!second.opened().is_attached);
    second.host.perform(Effect::Open(Some("b".into()))).await;
    let opened = second.opened();
    assert!(opened.is_attached && opened.state.messages.len() == 2 && !opened.same);
    second.prompt("Are you there?").await;
    second.host.perform(Effect::SwitchThinking(ThinkingLevel::High)).await;
    let outcomes = second.outcomes();
    assert!(matches!(&outcomes[..], [Outcome::Notice(Tone::Error, _)]), "{outcomes:?}");
    first.prompt("And you?").await;
    first.host.perform(Effect::SwitchThinking(ThinkingLevel::High)).await;
    let dir = first.end().await;
    assert_eq!(second.level_after_move().await, (false, ThinkingLevel::High), "as set there");
    second.end().await;

    // As the first session, with an option that is used when the session is open here.
    let first = TestHost::begin(dir, &["--session", "b"]).await;
    let mut third = first.beside(&["--session", "b", "--thinking", "low"]).await;
    assert!(third.opened().is_attached);
    let _dir = first.end().await;
    let moved = third.level_after_move().await;
    assert_eq!(moved, (false, ThinkingLevel::Low), "as the command line requested");
    third.prompt("Still there?").await;
}

/// C316: this process attaches to a session that another process asks for, and reopens it if that
/// process does not open it.
#[tokio::test]
async fn a_session_that_was_asked_for_is_attached_to() {
    let mut test = TestHost::begin(tempfile::tempdir().unwrap(), &["--session", "a"]).await;
    test.prompt("Hello").await;
    test.outcomes();
    let store = test.store();
    let epoch = SessionLog::of(&store.read("a", 0).await.unwrap()).epoch();
    let handle = test.host.handle().unwrap();
    handle.send(InputEvent::Release { epoch }).await.unwrap();
    for is_attached in [true, false] {
        let mut events = test.events.take().unwrap();
        while events.next().await.is_some() {}
        assert_eq!(events.end(), Some(StreamEnd::Moved));
        test.host.reopen().await;
        let opened = test.opened();
        assert!(opened.is_attached == is_attached && opened.state.messages.len() == 2);
    }
    test.prompt("Are you there?").await;
}

#[tokio::test]
async fn a_list_that_fails_is_reported_and_the_open_session_comes_last() {
    let dir = tempfile::tempdir().unwrap();
    let broken = dir.path().join("models.toml");
    std::fs::write(&broken, "[[[").unwrap();
    let mut test = TestHost::begin(dir, &["--session", "old"]).await;
    test.prompt("Hello").await;
    let dir = test.end().await;
    let mut test = TestHost::begin(dir, &["--session", "new"]).await;
    test.prompt("Hello").await;
    test.outcomes();
    test.host.list(Source::Sessions);
    let Some(Msg::Outcome(Outcome::Listed(_, all))) = test.msgs.recv().await else {
        panic!("a list")
    };
    assert_eq!(all.iter().map(|choice| choice.value.as_str()).collect::<Vec<_>>(), ["old", "new"]);

    test.host.settings.active.models = Some(broken);
    test.host.list(Source::Models);
    let Some(Msg::Outcome(Outcome::Notice(Tone::Error, why))) = test.msgs.recv().await else {
        panic!("a notice")
    };
    assert!(why.contains("models.toml"), "{why}");
    let Some(Msg::Outcome(Outcome::Listed(_, none))) = test.msgs.recv().await else {
        panic!("a list")
    };
    assert!(none.is_empty());
}

#[tokio::test]
async fn a_corrupt_session_can_be_opened_once_it_is_repaired() {
    let mut test = TestHost::begin(tempfile::tempdir().unwrap(), &["--session", "b"]).await;
    test.prompt("Hello").await;
    let dir = test.end().await;
    let log = dir.path().join("kept/b.jsonl");
    let sound = std::fs::read(&log).unwrap();
    std::fs::write(&log, [b"{no\n", &sound[..]].concat()).unwrap();
    let mut test = TestHost::begin(dir, &["--session", "b", "--thinking", "low"]).await;
    let (why, closed) = test.not_opened();
    assert!(why.contains("`/sessions b` retries") && closed, "{why}");
    std::fs::write(&log, sound).unwrap();
    test.host.perform(Effect::Open(Some("b".into()))).await;
    let opened = test.opened();
    assert_eq!((opened.state.messages.len(), opened.state.thinking_level), (2, ThinkingLevel::Low));
}
