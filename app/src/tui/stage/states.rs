//! The screens of recorded sessions at three sizes. Review the snapshots beside this file by eye.

use insta::assert_snapshot;
use loopwright_core::model::Update;
use loopwright_core::tool::ToolUpdate;

use super::super::state::{Choice, Source};
use super::*;

const SIZES: [(u16, u16); 3] = [USUAL, NARROW, WIDE];

impl Stage {
    /// Compares the screen with its snapshot.
    fn assert_screen(&mut self, name: &str) {
        let (columns, lines) = self.size;
        assert_snapshot!(format!("{name}_{columns}x{lines}"), self.screen());
    }

    /// Answers requests for diffs, as the coding agent does.
    async fn previews(&mut self) {
        let diff = "@@ -3,5 +3,5 @@\n pub fn parse(text: &str) -> Vec<(&str, &str)> {\n     \
            text.lines()\n-        .filter_map(|line| line.split_once('='))\n+        \
            .filter_map(|line| line.split_once(\" = \"))\n         .map(|(key, value)| \
            (key.trim(), value.trim()))\n         .collect()\n";
        for effect in std::mem::take(&mut self.wanted) {
            if let Effect::Preview(action) = effect
                && matches!(&*action.name, "edit_file" | "write_file")
            {
                self.outcome(Outcome::Preview(*action, Ok(diff.into()))).await;
            }
        }
    }
}

fn never(_: &AgentEvent) -> bool {
    false
}

/// Matches the n-th event for which `holds` returns true.
fn nth(number: usize, holds: impl Fn(&AgentEvent) -> bool) -> impl FnMut(&AgentEvent) -> bool {
    let mut seen = 0;
    move |event| {
        seen += usize::from(holds(event));
        seen == number
    }
}

fn is_output(event: &AgentEvent) -> bool {
    matches!(event, AgentEvent::ToolExecutionUpdate { update: ToolUpdate::Output(_), .. })
}

#[tokio::test]
async fn an_answer() {
    for size in SIZES {
        let mut stage = Stage::recorded(size, "answer", never).await;
        stage.assert_screen("an_answer");
    }
}

#[tokio::test]
async fn thoughts() {
    let is_thought = |event: &AgentEvent| {
        matches!(event, AgentEvent::MessageUpdate { update: Update::Thinking { .. }, .. })
    };
    let is_text = |event: &AgentEvent| {
        matches!(event, AgentEvent::MessageUpdate { update: Update::Text { .. }, .. })
    };
    for size in SIZES {
        let mut stage = Stage::recorded(size, "answer", nth(12, is_thought)).await;
        stage.assert_screen("thoughts_come");
        stage.control('t').await;
        stage.assert_screen("thoughts_come_open");
        let mut stage = Stage::recorded(size, "answer", nth(6, is_text)).await;
        stage.assert_screen("thoughts_folded");
        stage.control('t').await;
        stage.assert_screen("thoughts_open");
    }
}

#[tokio::test]
async fn calls() {
    for size in SIZES {
        let mut stage = Stage::recorded(size, "work", nth(7, is_output)).await;
        stage.assert_screen("a_call_runs");
        let mut stage = Stage::recorded(size, "work", never).await;
        stage.assert_screen("results_folded");
        for _ in 0..2 {
            stage.alt(KeyCode::Up).await;
        }
        stage.control('o').await;
        stage.assert_screen("a_diff_open");
        assert!(
            stage.screen().contains("✓▌edit_file") || size == NARROW,
            "the result mark and the selection"
        );
        stage.control('o').await;
        stage.press(KeyCode::Esc).await;
        stage.control('o').await;
        stage.assert_screen("results_open");
    }
}

#[tokio::test]
async fn dialogs() {
    for size in SIZES {
        let mut stage = Stage::recorded(size, "asking", never).await;
        stage.wait(Duration::from_secs(1));
        stage.previews().await;
        stage.assert_screen("a_dialog_with_a_diff");
        stage.types("n").await;
        stage.types("split at every equals sign, spaces or not").await;
        stage.assert_screen("a_reason_is_written");
        stage.press(KeyCode::Esc).await;
        let why = "the arguments do not fit edit_file: `old_string` is missing".to_owned();
        stage.outcome(Outcome::Refused { call: "c2".into(), why }).await;
        stage.assert_screen("a_dialog_with_a_problem");
        stage.press(KeyCode::Esc).await;
        stage.assert_screen("calls_wait");
    }
}

#[tokio::test]
async fn queues() {
    for size in SIZES {
        let mut stage = Stage::recorded(size, "queues", never).await;
        stage.assert_screen("queues");
    }
}

#[tokio::test]
async fn popups() {
    let files = [
        "app/src/tui/paint/markdown/painter.rs",
        "app/src/tui/state.rs",
        "Cargo.toml",
        "src/parser.rs",
    ];
    let sessions = [
        ("swift-otter-41", "2m · 14 messages · How does the parser work?"),
        (
            "calm-heron-07",
            "3h · 220 messages · Rename the argument of parse to source, and all that depends on \
             it",
        ),
        ("the-one-about-quoting", "4d · 8 messages · 引用符をどう扱うか、教えてください"),
    ];
    for size in SIZES {
        let mut stage = Stage::recorded(size, "answer", never).await;
        stage.types("Look at @").await;
        stage.assert_screen("files_are_looked_for");
        let choices = files.map(|name| Choice::new(name, ""));
        stage.outcome(Outcome::Listed(Source::Files, choices.to_vec())).await;
        stage.press(KeyCode::Down).await;
        stage.assert_screen("files_are_offered");
        stage.control('c').await;
        stage.types("/sessions ").await;
        let choices = sessions.map(|(name, note)| Choice::new(name, note));
        stage.outcome(Outcome::Listed(Source::Sessions, choices.to_vec())).await;
        stage.press(KeyCode::Down).await;
        stage.assert_screen("sessions_are_offered");
    }
}

#[tokio::test]
async fn a_compaction() {
    for size in SIZES {
        let mut stage = Stage::recorded(size, "compacted", never).await;
        stage.assert_screen("a_compaction");
    }
}

#[tokio::test]
async fn a_failure() {
    for size in SIZES {
        let mut stage = Stage::recorded(size, "failed", never).await;
        stage.assert_screen("a_failure");
    }
}

/// With `NO_COLOR` no cell has a colour; marks, weight and lines carry the information.
#[tokio::test]
async fn without_colours() {
    for (name, recording) in
        [("an_answer_plain", "answer"), ("results_plain", "work"), ("a_dialog_plain", "asking")]
    {
        for size in SIZES {
            let mut stage = Stage::recorded(size, recording, never).await;
            stage.view = View::new(Theme::plain());
            stage.previews().await;
            let buffer = stage.buffer();
            assert!(
                buffer
                    .content
                    .iter()
                    .all(|cell| (cell.fg, cell.bg) == (Color::Reset, Color::Reset)),
                "{name}"
            );
            let (columns, lines) = size;
            assert_snapshot!(format!("{name}_{columns}x{lines}"), stage.styled());
        }
    }
}
