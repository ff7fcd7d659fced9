//! Sessions in a store of their own, with the offline model.

use clap::Parser;
use loopwright_core::SessionStore;
use loopwright_core::model::ThinkingLevel;
use loopwright_memory::Jsonl;
use tempfile::TempDir;

use super::*;
use crate::args::{Approve, ChatArgs, Cli};
use crate::tui::state::{Effect, Source};

struct Outside {
    dir: TempDir,
    host: Host,
    news: mpsc::UnboundedReceiver<News>,
    /// Those of the session that was opened last.
    events: Option<EventStream>,
}

impl Outside {
    /// With these arguments, and this session opened.
    async fn begin(dir: TempDir, args: &[&str]) -> Self {
        let ChatArgs { which, options, .. } = chat(&dir, args);
        let (tell, news) = mpsc::unbounded_channel();
        let mut outside = Outside { dir, host: Host::new(options, tell), news, events: None };
        outside.host.open(Target::First(Box::new(which))).await;
        outside
    }

    fn store(&self) -> Jsonl {
        Jsonl::open(self.dir.path().join("kept")).unwrap()
    }

    /// What was told since.
    fn told(&mut self) -> Vec<Told> {
        let mut all = Vec::new();
        while let Ok(what) = self.news.try_recv() {
            all.push(match what {
                News::Told(told) => told,
                News::Opened(opened, events) => {
                    self.events = Some(events);
                    Told::Opened(opened)
                }
            });
        }
        all
    }

    fn opened(&mut self) -> Opened {
        match self.told().pop() {
            Some(Told::Opened(opened)) => *opened,
            other => panic!("{other:?}"),
        }
    }

    /// Why it was not, and whether nothing is open by it.
    fn not_opened(&mut self) -> (String, bool) {
        match self.told().pop() {
            Some(Told::NotOpened { why, closed }) => (why, closed),
            other => panic!("{other:?}"),
        }
    }

    async fn says(&mut self, text: &str) {
        self.host.spoken();
        self.host.handle().unwrap().prompt(text).await.unwrap();
    }

    async fn end(mut self) -> TempDir {
        self.told();
        self.events = None;
        self.host.leave().await;
        self.dir
    }
}

fn chat(dir: &TempDir, args: &[&str]) -> ChatArgs {
    let place = dir.path().join("kept/");
    let root = dir.path().to_str().unwrap();
    let store =
        ["loopwright", "--model", "offline", "--root", root, "--store", place.to_str().unwrap()];
    Cli::parse_from(store.iter().chain(args)).chat
}

/// C172: what was allowed in a session, and what it was started with, is its own: /new and /fork
/// begin with what the command line gives, with the model and the thinking that are in use.
#[tokio::test]
async fn a_new_session_or_a_fork_has_none_of_the_freedoms_of_the_one_that_is_open() {
    let dir = tempfile::tempdir().unwrap();
    let free =
        ["--session", "free", "--approve", "all", "--approve", "diff", "--unconfined", "--network"];
    let mut outside = Outside::begin(dir, &[&free[..], &["--thinking", "high"]].concat()).await;
    outside.says("Hello").await;
    let dir = outside.end().await;

    let mut outside = Outside::begin(dir, &["--session", "free"]).await;
    let told = outside.told();
    let warned = |told: &Told| matches!(told, Told::Notice(Tone::Loud, text) if text.contains("all tools run unasked"));
    assert!(told.iter().any(warned), "{told:?}");
    assert_eq!(outside.host.options().approve, [Approve::All, Approve::Tool("diff".into())]);
    outside.host.allow("execute_command");
    outside.host.perform(Effect::SwitchThinking(ThinkingLevel::Low)).await;
    assert!(outside.host.allowed().has("execute_command"), "it is the same session");

    for effect in [Effect::Fork(None), Effect::Open(None)] {
        outside.host.open(Target::Named("free".into())).await;
        outside.told();
        outside.host.allow("execute_command");
        outside.host.perform(effect.clone()).await;
        let opened = outside.opened();
        assert_eq!(opened.state.thinking_level, ThinkingLevel::Low, "{effect:?}");
        let options = outside.host.options();
        assert_eq!(options.approve, [], "{effect:?}");
        let kept = serde_json::to_value(options).unwrap();
        assert_eq!((kept.get("network"), kept.get("unconfined")), (None, None), "{effect:?}");
        assert!(!outside.host.allowed().has("execute_command"), "{effect:?}");
        assert!(!outside.host.allowed().has("diff"), "{effect:?}");
    }
}

#[tokio::test]
async fn a_level_that_was_chosen_here_is_kept() {
    let mut outside = Outside::begin(tempfile::tempdir().unwrap(), &["--session", "a"]).await;
    outside.says("Hello").await;
    outside.host.perform(Effect::SwitchThinking(ThinkingLevel::High)).await;
    assert!(outside.opened().same);
    let dir = outside.end().await;
    let mut outside = Outside::begin(dir, &["--session", "a"]).await;
    assert_eq!(outside.opened().state.thinking_level, ThinkingLevel::High);
}

/// C173: a session is let go of only when the other one is open: a name that is none, or one that
/// is in use, costs nothing.
#[tokio::test]
async fn what_cannot_be_opened_leaves_what_is_open() {
    let mut outside = Outside::begin(tempfile::tempdir().unwrap(), &["--session", "a"]).await;
    outside.says("Hello").await;
    let store = outside.store();
    outside.told();

    outside.host.perform(Effect::Open(Some("nosuch".into()))).await;
    let (why, closed) = outside.not_opened();
    assert!(why.contains("`nosuch`") && why.contains("/new") && !closed, "{why}");
    assert!(store.session("nosuch").await.is_err());
    outside.says("Are you there?").await;

    outside.host.perform(Effect::Open(Some("a".into()))).await;
    assert!(!outside.not_opened().1);
    outside.says("Are you there?").await;

    outside.host.perform(Effect::SwitchModel("nobody/x".into())).await;
    let (why, closed) = outside.not_opened();
    assert!(
        why.contains("/quit")
            && why.contains("--session a --model nobody/x --base-url URL")
            && !closed,
        "{why}"
    );
    outside.says("Are you there?").await;
}

#[tokio::test]
async fn one_that_is_in_use_is_opened_when_it_is_free() {
    let mut outside = Outside::begin(tempfile::tempdir().unwrap(), &["--session", "b"]).await;
    outside.says("Hello").await;
    let dir = outside.end().await;
    let first = Outside::begin(dir, &["--session", "b"]).await;

    // From a session that is open.
    let (tell, news) = mpsc::unbounded_channel();
    let ChatArgs { which, options, .. } = chat(&first.dir, &["--session", "a"]);
    let mut host = Host::new(options, tell);
    host.open(Target::First(Box::new(which))).await;
    let mut second = Outside { dir: tempfile::tempdir().unwrap(), host, news, events: None };
    second.opened();
    second.host.perform(Effect::Open(Some("b".into()))).await;
    assert!(!second.not_opened().1);
    second.says("Are you there?").await;

    // As the first one.
    let (tell, news) = mpsc::unbounded_channel();
    let ChatArgs { which, options, .. } =
        chat(&first.dir, &["--session", "b", "--thinking", "low"]);
    let mut host = Host::new(options, tell);
    host.open(Target::First(Box::new(which))).await;
    let mut third = Outside { dir: tempfile::tempdir().unwrap(), host, news, events: None };
    let (why, closed) = third.not_opened();
    assert!(why.contains("`/sessions b` tries again") && closed, "{why}");
    let _dir = first.end().await;
    third.host.perform(Effect::Open(Some("b".into()))).await;
    assert_eq!(
        third.opened().state.thinking_level,
        ThinkingLevel::Low,
        "as the command line wanted it"
    );
}

#[tokio::test]
async fn a_reader_that_was_too_slow_joins_again() {
    let mut outside = Outside::begin(tempfile::tempdir().unwrap(), &["--session", "a"]).await;
    outside.told();
    outside.says("Hello").await;
    outside.events = None;
    outside.host.join().await;
    let opened = outside.opened();
    assert!(opened.same && opened.state.messages.len() == 2);
    outside.says("And again").await;
    assert!(outside.events.as_mut().unwrap().next().await.is_some());
}

#[tokio::test]
async fn a_list_that_cannot_be_had_is_told_of_and_the_open_session_comes_last() {
    let dir = tempfile::tempdir().unwrap();
    let broken = dir.path().join("models.toml");
    std::fs::write(&broken, "[[[").unwrap();
    let mut outside = Outside::begin(dir, &["--session", "old"]).await;
    outside.says("Hello").await;
    let dir = outside.end().await;
    let mut outside = Outside::begin(dir, &["--session", "new"]).await;
    outside.says("Hello").await;
    outside.told();
    outside.host.list(Source::Sessions);
    let Some(News::Told(Told::Listed(_, all))) = outside.news.recv().await else {
        panic!("a list")
    };
    assert_eq!(all.iter().map(|choice| choice.value.as_str()).collect::<Vec<_>>(), ["old", "new"]);

    outside.host.options.models = Some(broken);
    outside.host.list(Source::Models);
    let Some(News::Told(Told::Notice(Tone::Error, why))) = outside.news.recv().await else {
        panic!("a notice")
    };
    assert!(why.contains("models.toml"), "{why}");
    let Some(News::Told(Told::Listed(_, none))) = outside.news.recv().await else {
        panic!("a list")
    };
    assert!(none.is_empty());
}

#[tokio::test]
async fn one_that_is_damaged_is_opened_when_it_was_mended() {
    let mut outside = Outside::begin(tempfile::tempdir().unwrap(), &["--session", "b"]).await;
    outside.says("Hello").await;
    let dir = outside.end().await;
    let log = dir.path().join("kept/b.jsonl");
    let sound = std::fs::read(&log).unwrap();
    std::fs::write(&log, [b"{no\n", &sound[..]].concat()).unwrap();
    let mut outside = Outside::begin(dir, &["--session", "b", "--thinking", "low"]).await;
    let (why, closed) = outside.not_opened();
    assert!(why.contains("`/sessions b` tries again") && closed, "{why}");
    std::fs::write(&log, sound).unwrap();
    outside.host.perform(Effect::Open(Some("b".into()))).await;
    let opened = outside.opened();
    assert_eq!((opened.state.messages.len(), opened.state.thinking_level), (2, ThinkingLevel::Low));
}
