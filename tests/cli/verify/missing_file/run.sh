verify dataset nowhere
