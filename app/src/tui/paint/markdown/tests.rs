//! The layout of Markdown, its independence of how the text is split, and its cost.

use super::super::highlight::load;
use super::*;

fn whole(text: &str, width: u16) -> Vec<Line<'static>> {
    Markdown::new(width).update(text, true, &Theme::ansi()).to_vec()
}

fn rendered(text: &str, width: u16) -> String {
    whole(text, width).iter().map(|line| line.to_string().trim_end().to_owned() + "\n").collect()
}

/// Markdown of every kind, some of it malformed.
const NASTY: &[&str] = &[
    "# One\ntext\n## Two\n\nSetext\n===\n\nother\n---\nrest *em **strong** em* ~~gone~~ `code`\n",
    "- a\n- b\n  - c\n    - d\n\n      para\n- e\n\n* other list\n1. one\n1. two\n\n7) seven\n8) \
     eight\n",
    "1. a\n   ```rust\n   fn f() {}\n   ```\n2. b\n\n   > quote\n   > - in quote\n",
    "> quote\n> more\nlazy\n>\n> > deeper\n> ```\n> code\n> ```\nafter\n",
    "```rust\nfn main() { println!(\"x\"); }\n/* open\nstill */\n```\n\n~~~\n```\n~~~\n``` js\n\
     unclosed\n",
    "| a | b |\n|---|:-:|\n| 1 | 2 |\n| `x|y` | long cell with words |\nafter\n\n| not a table\n",
    "<div>\n<b>x</b>\n\ntext <br> more <i>html</i>\n<!-- open\n\nstill -->\n<script>\n\n\
     </script>\n",
    "*unclosed **emphasis `and code\n\n[link](javascript:alert(1)) [b](http://b.example) \
     <http://c.example> [d]()\n",
    "[ref] and [text][ref]\n\n[ref]: http://ref.example 'title'\n\n[ref] again\n\n[other]: \
     http://other.example\n",
    "![alt](pic.png) ![](nothing.png) [![in](x.png)](http://y.example)\n\n- [ ] task\n- [x] done\n\
     1. [ ] three\n",
    "a  \nhard\\\nbreak\n\n***\n\n    indented\n\n    code\n\n-\n- \n-\n\n  x\n",
    "漢字漢字漢字 👩‍👩‍👧‍👦 e\u{301}\u{202e}rtl\u{202c} \x1b[31mred\0\r\nnext\r\n\r\nlast\r",
    "- a\n-\n  b\n\n\n\n- c\n\ttab\n+ d\n\n  ***\n  text\n10. x\n2. y\n",
    "text\n```\nopen at once\n```\nmore\n- list\n```\ncode\n````\n    ```\nx\n   ```\n",
    "#\n##hashtag\n####### seven\n# a #\n=\n-\n--\n",
];

#[test]
fn all_constructs_are_laid_out() {
    load();
    let text = "# A heading\nSome *emphasised* and **strong** text with `code`, a \
        [link](https://example.com/a) and an <https://example.org>.\n\n## Lists\n- one\n- two, \
        which is long enough that it must go on in the next line\n  1. nested\n  2. twice\n- [x] \
        done\n- [ ] to do\n\n9. nine\n9. ten\n\n> A quote that is long enough for two lines of \
        this width\n> - with a list\n\n```rust\nfn main() {\n    println!(\"this line is far too \
        long for the width that there is\");\n}\n```\n\n| Name | Count | What it is |\n\
        |:--|--:|---|\n| a | 1 | short |\n| bcd | 20 | a long cell that must be wrapped in its \
        column |\n\n---\n\n![a picture](x.png) <b>raw</b>\n\n[1]: https://example.com\n";
    insta::assert_snapshot!("wide", rendered(text, 60));
    insta::assert_snapshot!("narrow", rendered(text, 24));
}

#[test]
fn malformed_markdown_is_laid_out() {
    for (n, text) in NASTY.iter().enumerate() {
        insta::assert_snapshot!(
            format!("nasty_{n:02}"),
            format!("{text}\n⇒\n{}", rendered(text, 40))
        );
    }
}

/// Reproducible pseudo-random numbers.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 11).unwrap() % bound
    }
}

fn limited(width: u16, limit: usize) -> Markdown {
    Markdown { limit, ..Markdown::new(width) }
}

/// Adds the text in parts. After each, the lines equal the layout of the whole text so far.
fn check_splits(text: &str, width: u16, limit: usize, dice: &mut Dice) {
    let theme = Theme::ansi();
    let mut parts = limited(width, limit);
    let mut to = 0;
    while to < text.len() {
        to = text.ceil_char_boundary((to + 1 + dice.below(2 * limit.min(40))).min(text.len()));
        let lines = parts.update(&text[..to], false, &theme);
        let mut fresh = limited(width, limit);
        let at_once = fresh.update(&text[..to], false, &theme);
        assert_eq!(lines, at_once, "width {width}, limit {limit}, {:?}", &text[..to]);
    }
    let lines = parts.update(text, true, &theme);
    assert_eq!(
        lines,
        limited(width, limit).update(text, true, &theme),
        "width {width}, limit {limit}, {text:?}"
    );
    for line in lines {
        assert!(
            line.width() <= usize::from(width),
            "width {width}, limit {limit}, {line:?} of {text:?}"
        );
        assert!(
            !line.to_string().contains(|c: char| c.is_control() || c == '\u{202e}'),
            "{line:?}"
        );
    }
}

#[test]
fn the_lines_do_not_depend_on_how_the_text_is_split() {
    load();
    let dice = &mut Dice(7);
    let all = NASTY.concat();
    for text in NASTY.iter().copied().chain([all.as_str()]) {
        for (width, limit) in
            [(1, 64), (3, 16), (7, MAX_UNIT_BYTES), (20, 128), (40, 48), (80, MAX_UNIT_BYTES)]
        {
            check_splits(text, width, limit, dice);
        }
    }
}

/// Random sequences of markup, at all widths.
#[test]
fn random_markup_is_laid_out() {
    const WORDS: &[&str] = &[
        "word",
        "a longer run of words",
        "\n",
        "\n",
        "\n\n",
        " ",
        "  ",
        "    ",
        "\t",
        "- ",
        "* ",
        "+",
        "1. ",
        "23) ",
        "> ",
        ">",
        "```",
        "```rust\n",
        "~~~",
        "`",
        "``",
        "| a | b |\n|---|--:|\n",
        "| c | d |\n",
        "|",
        "---\n",
        "===\n",
        "# ",
        "## ",
        "*",
        "**",
        "_",
        "~~",
        "[x]: /url\n",
        "[x]",
        "[t](http://u.example)",
        "![i](p)",
        "<div>",
        "</div>\n",
        "<!--",
        "-->",
        "<br>",
        "<http://a.example>",
        "&amp;",
        "&",
        "\\",
        "\r",
        "\r\n",
        "\0",
        "\x1b[1m",
        "\u{202e}",
        "漢字",
        "👩‍👩‍👧‍👦",
        "🇩🇪🇫",
        "e\u{301}",
        "\u{301}",
        "\u{200d}",
        "\u{fe0f}",
        "❤\u{fe0f}",
        "لا",
        "ᄀᄀᄀ각",
        "क्षि",
        "\u{a0}",
        "\u{2028}",
        "- [x] ",
        "0123456789012345678901234567890123456789",
        "fn f() { \"",
        "/*",
    ];
    load();
    let dice = &mut Dice(42);
    for round in 0..200 {
        let text: String = (0..dice.below(60)).map(|_| WORDS[dice.below(WORDS.len())]).collect();
        let limit = [8, 33, 100, MAX_UNIT_BYTES][dice.below(4)];
        check_splits(&text, 1 + round % 120, limit, dice);
    }
}

/// A streamed text is parsed a few times in all, not once per frame.
#[test]
fn a_long_answer_is_parsed_a_few_times_in_all() {
    load();
    let sixty = "and so it goes on and on, one word after another, up to here";
    let answers = [
        ("a block of code", format!("```\n{}", "let x = 1; // of many\n".repeat(27_300))),
        ("one paragraph", format!("{sixty} ").repeat(9_800)),
        ("one paragraph of lines", format!("{sixty}\n").repeat(9_800)),
        ("a list", "- an item of a list in 30 bytes\n".repeat(20_000)),
        ("a numbered list", "1. an item with `code`\n\n   and text\n".repeat(5_000)),
        (
            "a table",
            format!("| a | b |\n|---|---|\n{}", "| some cell | another cell |\n".repeat(6_000)),
        ),
        ("a quote", "> a line of a quote, and no end\n".repeat(6_000)),
        ("one line of code", format!("```js\n{}", "function(){var x=1};".repeat(30_000))),
        ("no spaces", "abcdefghij".repeat(20_000)),
        ("many blocks", format!("# Head\n{sixty}\n\n- a\n- b\n\n```\ncode\n```\n").repeat(2_000)),
    ];
    for (name, text) in answers {
        let (frames, theme) = (100, Theme::ansi());
        let mut markdown = Markdown::new(80);
        for frame in 1..=frames {
            markdown.update(&text[..text.len() * frame / frames], frame == frames, &theme);
        }
        let bound = 4 * text.len() + frames * 4 * MAX_UNIT_BYTES;
        let work = markdown.work.bytes();
        assert!(work < bound, "{name}: {work} of {} bytes", text.len());
        assert!(markdown.lines.len() > 2_000, "{name}: {} lines", markdown.lines.len());
    }
}
