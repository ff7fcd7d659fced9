//! Words for the levels of thinking, as data.

use loopwright_core::model::ThinkingLevel;

/// The words that a model accepts for each level of thinking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReasoningEfforts {
    /// Word that switches thinking off. `None` if the model thinks only on request, or cannot be
    /// switched off.
    pub off: Option<&'static str>,
    /// Words for [`Minimal`](ThinkingLevel::Minimal) to [`XHigh`](ThinkingLevel::XHigh). A missing
    /// level has its nearest level's word.
    pub levels: [&'static str; 5],
}

impl ReasoningEfforts {
    pub(crate) const LOW_TO_HIGH: ReasoningEfforts =
        ReasoningEfforts::new(["low", "low", "medium", "high", "high"]);
    pub(crate) const LOW_TO_XHIGH: ReasoningEfforts =
        ReasoningEfforts::new(["low", "low", "medium", "high", "xhigh"]);
    pub(crate) const MINIMAL_TO_HIGH: ReasoningEfforts =
        ReasoningEfforts::new(["minimal", "low", "medium", "high", "high"]);
    pub(crate) const MINIMAL_TO_XHIGH: ReasoningEfforts =
        ReasoningEfforts::new(["minimal", "low", "medium", "high", "xhigh"]);
    pub(crate) const MEDIUM_TO_XHIGH: ReasoningEfforts =
        ReasoningEfforts::new(["medium", "medium", "medium", "high", "xhigh"]);

    /// Returns these words for [`Minimal`](ThinkingLevel::Minimal) to
    /// [`XHigh`](ThinkingLevel::XHigh).
    pub const fn new(levels: [&'static str; 5]) -> Self {
        ReasoningEfforts { off: None, levels }
    }

    /// Returns one word for every level, for models without degrees.
    pub const fn only(word: &'static str) -> Self {
        ReasoningEfforts::new([word; 5])
    }

    /// Sets the word that switches thinking off.
    pub const fn or_off(self, word: &'static str) -> Self {
        ReasoningEfforts { off: Some(word), ..self }
    }

    /// Returns the word for a level, or `None` to send no effort.
    pub fn word(&self, level: ThinkingLevel) -> Option<&'static str> {
        let [minimal, low, medium, high, xhigh] = self.levels;
        match level {
            ThinkingLevel::Off => self.off,
            ThinkingLevel::Minimal => Some(minimal),
            ThinkingLevel::Low => Some(low),
            ThinkingLevel::Medium => Some(medium),
            ThinkingLevel::High => Some(high),
            ThinkingLevel::XHigh => Some(xhigh),
        }
    }
}
