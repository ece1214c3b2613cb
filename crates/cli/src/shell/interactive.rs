//! The conversation with a person at a terminal: history, editing over several lines, a prompt that shows the transaction.

use std::borrow::Cow;
use std::fs;
use std::path::Path;

use ishigaki_sql::TransactionStatus;
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Config, Context, Editor, Helper};

use super::Shell;
use super::command::{self, Next};
use super::script::Script;
use crate::failure::Failure;

/// Reads and runs statements until the person leaves. Errors are told, and the conversation goes on.
pub(crate) fn run(shell: &mut Shell, history: Option<&Path>) -> Result<(), Failure> {
    let terminal = |error: ReadlineError| Failure::invalid(format!("the terminal can not be read: {error}"));
    let config = Config::builder().history_ignore_space(true).build();
    let mut editor: Editor<Manners, FileHistory> = Editor::with_config(config).map_err(terminal)?;
    editor.set_helper(Some(Manners));
    if let Some(history) = history {
        // There is none the first time.
        let _ = editor.load_history(history);
    }
    loop {
        let text = match editor.readline(prompt(shell.session.transaction_status())) {
            Ok(text) => text,
            // The line is cleared; nothing runs now that could be cancelled.
            Err(ReadlineError::Interrupted) => continue,
            Err(ReadlineError::Eof) => return Ok(()),
            Err(error) => return Err(terminal(error)),
        };
        if text.trim().is_empty() {
            continue;
        }
        remember(&mut editor, &text, history);
        let text = command::meant_by(&text).unwrap_or(&text);
        match shell.items("", text.as_bytes()) {
            Ok(Next::Continue) => {}
            Ok(Next::Leave) => return Ok(()),
            Err(Failure::Unheard) => return Err(Failure::Unheard),
            Err(failure) => failure.tell(),
        }
    }
}

/// Shows whether a transaction is open, and whether it can still be committed.
fn prompt(status: TransactionStatus) -> &'static str {
    match status {
        TransactionStatus::None => "ishigaki> ",
        TransactionStatus::Open => "ishigaki*> ",
        TransactionStatus::Aborted => "ishigaki!> ",
    }
}

/// Keeps the statement for the arrow keys, now and next time.
fn remember(editor: &mut Editor<Manners, FileHistory>, text: &str, history: Option<&Path>) {
    let _ = editor.add_history_entry(text);
    let Some(history) = history else { return };
    let kept = history.parent().map_or(Ok(()), fs::create_dir_all).map_err(ReadlineError::from);
    if let Err(error) = kept.and_then(|()| editor.append_history(history)) {
        tracing::debug!(history = %history.display(), %error, "the history is not kept");
    }
}

/// How the line editor behaves.
struct Manners;

impl Helper for Manners {}

/// Enter ends the input where a statement ends, and adds a line elsewhere.
impl Validator for Manners {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        if command::meant_by(context.input()).is_some() {
            return Ok(ValidationResult::Valid(None));
        }
        let mut script = Script::default();
        for line in context.input().lines() {
            script.line(line);
        }
        Ok(if script.is_between_statements() { ValidationResult::Valid(None) } else { ValidationResult::Incomplete })
    }
}

/// On an empty further line, says what is waited for.
impl Hinter for Manners {
    type Hint = String;

    fn hint(&self, line: &str, position: usize, _: &Context<'_>) -> Option<String> {
        (position == line.len() && line.ends_with('\n')).then(|| "  … until a semicolon".to_owned())
    }
}

impl Highlighter for Manners {
    fn highlight_hint<'h>(&self, hint: &'h str) -> Cow<'h, str> {
        Cow::Owned(format!("\x1b[2m{hint}\x1b[0m"))
    }

    fn highlight_prompt<'b, 's: 'b, 'p: 'b>(&'s self, prompt: &'p str, _: bool) -> Cow<'b, str> {
        Cow::Owned(format!("\x1b[1m{prompt}\x1b[0m"))
    }
}

/// Tab completes the shell's own commands.
impl Completer for Manners {
    type Candidate = String;

    fn complete(&self, line: &str, position: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        let begun = &line[..position];
        let fitting = command::NAMES.iter().filter(|name| begun.starts_with('.') && name.starts_with(begun));
        Ok((0, fitting.map(|name| (*name).to_owned()).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prompt_shows_the_transaction() {
        let prompts = [TransactionStatus::None, TransactionStatus::Open, TransactionStatus::Aborted].map(prompt);
        assert_eq!(prompts, ["ishigaki> ", "ishigaki*> ", "ishigaki!> "]);
    }
}
