verify dataset
