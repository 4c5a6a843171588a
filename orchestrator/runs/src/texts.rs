//! Texts of notices in each language.

use alloc::format;
use alloc::string::String;

/// The words of one language.
#[derive(Debug)]
pub(crate) struct Texts {
    pub(crate) plan: &'static str,
    pub(crate) step: &'static str,
    pub(crate) retry: &'static str,
    pub(crate) done: &'static str,
    pub(crate) failed: &'static str,
    pub(crate) timed_out: &'static str,
    pub(crate) cancelled: &'static str,
    pub(crate) discarded: &'static str,
    pub(crate) paused: &'static str,
    pub(crate) goes_on: &'static str,
    pub(crate) asks: &'static str,
    /// So many of so many steps failed.
    pub(crate) failed_of: fn(usize, usize) -> String,
}

impl Texts {
    /// Returns the texts of a language such as `ja` or `ja-JP`; English for an unknown language.
    pub(crate) fn of(locale: &str) -> &'static Self {
        let language = locale.split(['-', '_']).next().unwrap_or_default();
        if language.eq_ignore_ascii_case("ja") {
            &JAPANESE
        } else {
            &ENGLISH
        }
    }
}

const ENGLISH: Texts = Texts {
    plan: "plan",
    step: "plan step",
    retry: "retry",
    done: "done",
    failed: "failed",
    timed_out: "timed out",
    cancelled: "cancelled",
    discarded: "discarded; please ask again",
    paused: "paused",
    goes_on: "goes on after a restart",
    asks: "needs an answer",
    failed_of: |n_failed, n_steps| format!("{n_failed} of {n_steps} steps failed"),
};

const JAPANESE: Texts = Texts {
    plan: "計画",
    step: "計画のステップ",
    retry: "再試行",
    done: "完了",
    failed: "失敗",
    timed_out: "時間切れ",
    cancelled: "中止",
    discarded: "破棄されました。もう一度ご依頼ください",
    paused: "一時停止",
    goes_on: "再起動後に再開します",
    asks: "回答が必要です",
    failed_of: |n_failed, n_steps| format!("{n_steps} 件のステップのうち {n_failed} 件が失敗しました"),
};
