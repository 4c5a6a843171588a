//! Notices of the store in memory. Looks into none.

use super::RunContents;
use escapement_store::runs::LastNumbers;
use escapement_store::runs::limits::NOTICE_AGE_MS_MAX;
use escapement_store::runs::{NewNotice, StoredNotice};

impl RunContents {
    /// Writes notices, and lets what is too much of their streams or too old go.
    pub(super) fn tell(&mut self, notices: &[NewNotice]) {
        for new in notices {
            let of_stream = self.notices.values().filter(|notice| notice.stream == new.stream);
            let places: Vec<(u64, u64)> = of_stream.map(|notice| (notice.number, notice.n)).collect();
            let n = places.last().map_or(0, |(_, n)| *n) + 1;
            self.notice_last += 1;
            let notice = StoredNotice {
                number: self.notice_last,
                stream: new.stream.clone(),
                n,
                at: new.at,
                record: new.record.clone(),
            };
            self.notices.insert(notice.number, notice);
            for (number, of) in places.into_iter().take(2) {
                if of <= n.saturating_sub(new.kept_max) {
                    self.notices.remove(&number);
                }
            }
        }
        if let Some(newest) = notices.iter().map(|notice| notice.at).max() {
            let oldest: Vec<u64> = self.notices.keys().copied().take(2 * notices.len()).collect();
            for number in oldest {
                if self.notices[&number].at >= newest.saturating_sub(NOTICE_AGE_MS_MAX) {
                    break;
                }
                self.notices.remove(&number);
            }
        }
    }

    pub(in crate::runs::memory) fn notices(
        &self,
        stream: &str,
        after: u64,
        limit: usize,
    ) -> Vec<StoredNotice> {
        let behind = self.notices.range(after.saturating_add(1)..);
        let of_stream = behind.filter(|(_, notice)| notice.stream == stream);
        of_stream.take(limit).map(|(_, notice)| notice.clone()).collect()
    }

    pub(in crate::runs::memory) fn notices_until(&self, stream: &str, number: u64) -> Option<u64> {
        let mut of_stream = self.notices.values().filter(|notice| notice.stream == stream);
        let until = of_stream
            .clone()
            .take_while(|notice| notice.number <= number)
            .last();
        let is_whole = of_stream.next().is_none_or(|first| first.n == 1);
        let first = self
            .notices
            .keys()
            .next()
            .copied()
            .unwrap_or(self.notice_last + 1);
        match until {
            _ if number > self.notice_last => None,
            Some(last) => Some(last.n),
            None => (is_whole && number + 1 >= first).then_some(0),
        }
    }

    pub(in crate::runs::memory) fn last_numbers(&self) -> LastNumbers {
        LastNumbers {
            notice: self.notice_last,
            input_request: self.input_request_last,
        }
    }
}
