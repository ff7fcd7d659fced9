//! Text on standard output and standard error: results on standard output, everything else on
//! standard error.

mod events;
mod file;
mod format;
mod json;
mod pending;
mod printer;
mod sanitize;
mod streams;
mod verbosity;

pub(crate) use self::events::EventView;
pub(crate) use self::file::write_new_file;
pub(crate) use self::format::{age, call, digest, quoted};
pub(crate) use self::json::json_line;
pub(crate) use self::pending::{
    how_to_answer, how_to_resolve, report_pending, report_question, report_terms,
};
pub(crate) use self::printer::Printer;
pub(crate) use self::sanitize::sanitized;
pub(crate) use self::streams::{
    after_write, data, error, error_prefix, info, notice, question, text,
};
pub(crate) use self::verbosity::Verbosity;
