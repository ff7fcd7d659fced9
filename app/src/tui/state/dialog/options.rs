//! [`Options`]: the options of a question, and the chosen ones.

use crossterm::event::KeyCode;
use loopwright_core::tool::{AnswerForm, Question};
use serde_json::Value;

/// The options of a question.
#[derive(Debug)]
pub(crate) struct Options {
    options: Vec<String>,
    /// `true` if any number of options can be chosen.
    is_several: bool,
    /// The current option.
    current: usize,
    chosen: Vec<bool>,
}

impl Options {
    /// Returns the options of a question, or `None` if it has none.
    pub(super) fn of(question: &Question) -> Option<Self> {
        let (options, is_several) = match &question.form {
            AnswerForm::Choice { options } => (options.clone(), false),
            AnswerForm::Several { options } => (options.clone(), true),
            _ => return None,
        };
        let chosen = vec![false; options.len()];
        Some(Options { options, is_several, current: 0, chosen })
    }

    /// Returns whether any number of options can be chosen.
    pub(crate) fn is_several(&self) -> bool {
        self.is_several
    }

    /// Iterates over the options: the text, whether it is the current one, and whether it is
    /// chosen.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (&str, bool, bool)> {
        let rows = self.options.iter().zip(&self.chosen).enumerate();
        rows.map(|(index, (text, chosen))| (text.as_str(), index == self.current, *chosen))
    }

    /// Returns the answer.
    pub(super) fn answer(&self) -> Value {
        let chosen = self.options.iter().zip(&self.chosen).filter(|(_, chosen)| **chosen);
        match self.is_several {
            true => chosen.map(|(option, _)| Value::from(option.as_str())).collect(),
            false => self.options.get(self.current).map(String::as_str).into(),
        }
    }

    /// Handles a key: arrows and numbers move; a number or Space toggles if several can be chosen.
    /// Returns whether anything changed.
    pub(super) fn key(&mut self, key: KeyCode) -> bool {
        let last = self.options.len().saturating_sub(1);
        match key {
            KeyCode::Up => self.current = self.current.saturating_sub(1),
            KeyCode::Down => self.current = (self.current + 1).min(last),
            KeyCode::Home => self.current = 0,
            KeyCode::End => self.current = last,
            KeyCode::Char(' ') => self.toggle(),
            KeyCode::Char(digit) => {
                let number = digit.to_digit(10).and_then(|digit| usize::try_from(digit).ok());
                let Some(index) = number.and_then(|number| number.checked_sub(1)) else {
                    return false;
                };
                if index > last {
                    return false;
                }
                self.current = index;
                self.toggle();
            }
            _ => return false,
        }
        true
    }

    fn toggle(&mut self) {
        if self.is_several
            && let Some(chosen) = self.chosen.get_mut(self.current)
        {
            *chosen = !*chosen;
        }
    }
}
