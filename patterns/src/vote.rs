//! The vote of several patterns.

/// Returns the most frequent answer, as first given, or `None` without answers. The first one wins
/// a tie. Case and white space at the ends are ignored.
pub(crate) fn most_frequent(answers: &[String]) -> Option<&str> {
    let key = |answer: &str| answer.trim().to_lowercase();
    let votes = |answer: &str| answers.iter().filter(|other| key(other) == key(answer)).count();
    answers.iter().map(String::as_str).rev().max_by_key(|answer| votes(answer))
}

#[cfg(test)]
mod tests {
    use super::most_frequent;

    fn vote<const N: usize>(answers: [&str; N]) -> Option<String> {
        most_frequent(&answers.map(str::to_owned)).map(str::to_owned)
    }

    #[test]
    fn the_most_frequent_answer_wins_and_the_first_one_of_several() {
        assert_eq!(vote(["5", "4", "4"]).as_deref(), Some("4"));
        assert_eq!(vote(["5", "4"]).as_deref(), Some("5"));
        assert_eq!(vote(["No", "yes ", "Yes"]).as_deref(), Some("yes "));
        assert_eq!(vote([]), None);
    }
}
