"""HTTP: webhooks come in, operators look and act. Needs the extra `server`; nothing else imports this."""
