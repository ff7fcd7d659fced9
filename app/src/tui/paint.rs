//! What is said, thought and done, as styled lines of a given width: pure functions, which know no terminal.
//!
//! Whatever the text, no line is wider than asked for, and none has a control character or a mark in it that turns
//! the order of letters round.
#![cfg_attr(not(test), expect(dead_code, reason = "the view, which paints with it, comes with the next change"))]

mod code;
mod diff;
mod flow;
mod highlight;
mod markdown;
mod theme;

pub(crate) use self::diff::{changes, diff};
pub(crate) use self::flow::wrap;
pub(crate) use self::highlight::{is_warm, warm_up};
pub(crate) use self::markdown::Markdown;
pub(crate) use self::theme::Theme;
