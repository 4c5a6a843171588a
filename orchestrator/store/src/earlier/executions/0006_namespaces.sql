-- What an execution belongs to; null stands for `default`, as in all rows before this column was there.
-- The checksum of the accepted record covers it where it is not null.
ALTER TABLE execution ADD COLUMN namespace TEXT;

-- Holds executions of other namespaces only: a store without any pays nothing for it.
CREATE INDEX execution_by_namespace ON execution (namespace, number)
    WHERE namespace IS NOT NULL;
