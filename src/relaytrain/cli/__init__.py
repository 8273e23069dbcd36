"""The command line: `relaytrain VERB`, one file a verb, each thin over one public function."""
